package redistest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// StartTLS runs a server that speaks TLS and nothing else, and returns it with a configuration that trusts it; the test's end kills it. Its
// certificate is for 127.0.0.1 and localhost, from an authority of its own, and it requires none of clients. The test is skipped where the
// server binary was built without TLS.
func StartTLS(tb testing.TB) (server *Server, config *tls.Config) {
	tb.Helper()

	server = newServer(tb)

	files, roots, err := writeCertificates(server.dir)
	if err != nil {
		tb.Fatalf("redistest: %v", err)
	}

	config = &tls.Config{
		RootCAs:    roots,
		ServerName: "127.0.0.1",
		MinVersion: tls.VersionTLS12,
	}
	server.tls = config.Clone()

	err = server.start(tb.Context(), func(port int) ([]string, error) {
		return append(server.defaultArgs(port),
			"--port", "0",
			"--tls-port", strconv.Itoa(port),
			"--tls-cert-file", files.cert,
			"--tls-key-file", files.key,
			"--tls-ca-cert-file", files.ca,
			"--tls-auth-clients", "no",
		), nil
	})

	if refusesTLS(err) {
		tb.Skipf("redistest: %s was built without TLS (make BUILD_TLS=yes)", server.binary)
	}

	if err != nil {
		tb.Fatal(err)
	}

	return server, config
}

// refusesTLS reports whether the server did not come up because it does not know the option.
func refusesTLS(err error) bool {
	var failed *startError

	return errors.As(err, &failed) &&
		strings.Contains(failed.output, "tls-port") && strings.Contains(failed.output, "Bad directive")
}

// certificates are the paths of PEM files.
type certificates struct{ ca, cert, key string }

// writeCertificates makes an authority and a server's certificate from it, for a day.
func writeCertificates(dir string) (certificates, *x509.CertPool, error) {
	files := certificates{
		ca:   filepath.Join(dir, "ca.crt"),
		cert: filepath.Join(dir, "server.crt"),
		key:  filepath.Join(dir, "server.key"),
	}

	fail := func(err error) (certificates, *x509.CertPool, error) {
		return certificates{}, nil, fmt.Errorf("certificates: %w", err)
	}

	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fail(err)
	}

	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fail(err)
	}

	const validity = 24 * time.Hour
	now := time.Now()
	caTemplate := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "redistest authority"},
		NotBefore:             now.Add(-validity),
		NotAfter:              now.Add(validity),
		KeyUsage:              x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2),
		Subject:      pkix.Name{CommonName: "redistest server"},
		NotBefore:    now.Add(-validity),
		NotAfter:     now.Add(validity),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:     []string{"localhost"},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
	}

	caDER, err := x509.CreateCertificate(rand.Reader, caTemplate, caTemplate, caKey.Public(), caKey)
	if err != nil {
		return fail(err)
	}

	ca, err := x509.ParseCertificate(caDER)
	if err != nil {
		return fail(err)
	}

	der, err := x509.CreateCertificate(rand.Reader, template, ca, key.Public(), caKey)
	if err != nil {
		return fail(err)
	}

	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fail(err)
	}

	if err := errors.Join(
		writePEM(files.ca, "CERTIFICATE", caDER),
		writePEM(files.cert, "CERTIFICATE", der),
		writePEM(files.key, "PRIVATE KEY", keyDER),
	); err != nil {
		return fail(err)
	}

	roots := x509.NewCertPool()
	roots.AddCert(ca)

	return files, roots, nil
}

func writePEM(path, kind string, der []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}
