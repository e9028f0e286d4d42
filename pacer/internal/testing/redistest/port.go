package redistest

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// Ports are drawn from [firstPort, firstPort+portCount). A cluster node's bus listens busOffset above its
// port, always so on Redis 6.2, and both must stay below 32768, where Linux starts to take the local ports
// of outgoing connections from.
const (
	firstPort = 10240
	portCount = 12_000
	busOffset = 10_000
)

var errNoPort = errors.New("redistest: no free port found")

// handedOut keeps the ports that parallel tests of one process have been given, bound yet or not.
var handedOut struct { //nolint:gochecknoglobals // the ports of a machine are global
	sync.Mutex

	ports map[int]bool
}

// freePort returns a loopback port that is free together with its bus port, and that no other test of
// this process was given. Another process may still take it first: the caller must be ready to try again.
func freePort(ctx context.Context) (int, error) {
	handedOut.Lock()
	defer handedOut.Unlock()

	const tries = 200
	for range tries {
		port := firstPort + rand.IntN(portCount)
		if handedOut.ports[port] || !canListen(ctx, port) || !canListen(ctx, port+busOffset) {
			continue
		}

		if handedOut.ports == nil {
			handedOut.ports = make(map[int]bool)
		}

		handedOut.ports[port] = true

		return port, nil
	}

	return 0, errNoPort
}

func canListen(ctx context.Context, port int) bool {
	var config net.ListenConfig

	listener, err := config.Listen(ctx, "tcp", loopback(port))
	if err != nil {
		return false
	}

	return listener.Close() == nil
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
