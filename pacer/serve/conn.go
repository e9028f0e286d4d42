package serve

import (
	"crypto/tls"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// A conn is a connection of a client.
type conn struct {
	net.Conn

	of      *Listener
	once    sync.Once // makes room for another one
	framing framing
	isTLS   bool // and the handshake is not over
}

// Read implements [net.Conn].
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.framing.follow(p[:n])
	if c.isTLS {
		c.isTLS = false
		_ = c.SetWriteDeadline(time.Time{}) // as Accept has set it
		if plain, ok := errors.AsType[tls.RecordHeaderError](err); ok && plain.Conn != nil {
			_, _ = io.WriteString(plain.Conn, "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n") // as net/http does
		}
	}
	return n, err
}

// Close implements [net.Conn].
func (c *conn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() { <-c.of.open })
	return err
}

// CloseWrite lets net/http, and httputil.ReverseProxy, end one direction.
func (c *conn) CloseWrite() error {
	if one, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return one.CloseWrite()
	}
	return nil
}

// upgraded stops following a connection that is no longer one of HTTP/1.1.
func upgraded(c net.Conn, s http.ConnState) {
	if one, ok := c.(*conn); ok && s == http.StateHijacked {
		one.framing.at = inUnknown
	}
}

// A framing follows the requests on a connection, as net/http reads them, and makes net/http refuse two kinds that it would take, as RFC
// 9112 lets it: a field that goes on in the next line, and a request with two fields about its length. It replaces the byte that makes it one by
// a NUL, which no field has. So there is no second parser whose requests are forwarded: if this one errs, net/http has refused the request.
type framing struct {
	at       place
	skip     int64 // bytes of a body that come next
	preface  int   // how many bytes of HTTP/2's have come; below 0: others have
	last     byte  // of the request line
	name     [len(transferEncoding) + 1]byte
	n        int   // bytes of the name
	length   int64 // by Content-Length, or of a chunk
	framed   bool  // a field about the length has come
	isLength bool  // the value is that of Content-Length
	chunked  bool
	trailer  bool // the fields are those after the chunks
}

// A place is where in a request a connection is.
type place uint8

const (
	beforeRequest place = iota
	inRequestLine
	atLine // at the start of a field, or of the line that ends them
	inName
	inValue
	inSize // of a chunk
	afterSize
	inUnknown // not HTTP/1.1
)

const (
	http2Preface     = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	contentLength    = "content-length"
	transferEncoding = "transfer-encoding"
)

// follow follows the next bytes of a connection.
func (f *framing) follow(p []byte) {
	for len(p) > 0 && f.at != inUnknown {
		n := min(f.skip, int64(len(p)))
		if f.skip -= n; n == 0 {
			f.step(&p[0])
			n = 1
		}
		p = p[n:]
	}
}

func (f *framing) step(b *byte) {
	if f.preface >= 0 {
		if *b != http2Preface[f.preface] {
			f.preface = -1
		} else if f.preface++; f.preface == len(http2Preface) {
			f.at = inUnknown
			return
		}
	}
	switch f.at {
	case beforeRequest:
		if *b != '\r' && *b != '\n' { // which net/http skips
			*f = framing{at: inRequestLine, preface: f.preface}
		}
	case inRequestLine:
		if *b == '\n' {
			f.at = atLine
		} else if *b != '\r' {
			f.last = *b
		}
	case atLine:
		f.line(b)
	case inName:
		f.named(b)
	case inValue:
		if *b == '\n' {
			f.at = atLine
		} else if f.isLength {
			f.digit(*b, 10)
		}
	case inSize:
		if !f.digit(*b, 16) {
			f.at = afterSize
		}
		fallthrough
	case afterSize:
		if *b == '\n' {
			f.chunk()
		}
	case inUnknown:
	}
}

// line follows the first byte of a line.
func (f *framing) line(b *byte) {
	switch *b {
	case '\n':
		f.end()
	case '\r': // the line is empty, or refused
	case ' ', '\t':
		*b = 0 // a folded field
		f.at = inValue
	default:
		f.at, f.n, f.isLength = inName, 0, false
		f.named(b)
	}
}

// named follows the name of a field.
func (f *framing) named(b *byte) {
	switch {
	case *b == '\n':
		f.at = atLine
	case *b != ':':
		if f.n < len(f.name) {
			f.name[f.n] = *b
			f.n++
		}
	default:
		f.at = inValue
		name := string(f.name[:f.n])
		isLength, isCoding := strings.EqualFold(name, contentLength), strings.EqualFold(name, transferEncoding)
		if f.trailer || !isLength && !isCoding {
			return
		}
		if f.framed || isCoding && f.last == '0' { // HTTP/1.0 has no chunks
			*b = 0
		}
		f.framed, f.isLength, f.chunked = true, isLength, isCoding
	}
}

// end follows the end of the fields.
func (f *framing) end() {
	if f.chunked && !f.trailer {
		f.at = inSize
		return
	}
	f.at, f.skip = beforeRequest, f.length
}

// chunk follows the line before a chunk. Its length is 0 if it is the last one.
func (f *framing) chunk() {
	const crlf = 2
	if f.length == 0 {
		f.at, f.trailer = atLine, true
		return
	}
	f.at, f.skip, f.length = inSize, min(f.length, math.MaxInt64-crlf)+crlf, 0
}

// digit adds a digit to a length. It returns false for another byte.
func (f *framing) digit(b byte, base int64) bool {
	d := int64(b) - '0'
	switch letter := int64(b|0x20) - 'a'; { //nolint:mnd // lower case
	case d >= 0 && d <= 9:
	case base == 16 && letter >= 0 && letter < 6:
		d = letter + 10
	default:
		return false
	}
	if f.length > (math.MaxInt64-d)/base {
		f.length = math.MaxInt64
	} else {
		f.length = f.length*base + d
	}
	return true
}
