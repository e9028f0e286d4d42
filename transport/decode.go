package transport

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
)

const (
	// maxCodings bounds the content codings of a body. More than one is rare.
	maxCodings = 3
	// decodeOverhead is how many extra bytes of a body a decoder may read: headers, and what it reads ahead.
	decodeOverhead = 16 << 10
	// maxWindow is the largest window of zstd: the most that a content coding may need (RFC 9659 section 3).
	maxWindow = 8 << 20
)

// errCoding means that a content coding is unknown.
var errCoding = errors.New("transport: unknown content coding")

// codings returns the content codings of a body, in the order in which they were applied (RFC 9110 section 8.4).
func codings(h http.Header) []string {
	var all []string
	for _, line := range h["Content-Encoding"] {
		for name := range strings.SplitSeq(line, ",") {
			if name = strings.ToLower(strings.TrimSpace(name)); name != "" && name != "identity" {
				all = append(all, name)
			}
		}
	}
	return all
}

// decoder returns a reader that decodes r. Closing it leaves r open. Decoders read r in the goroutine of their caller, and use a bounded
// amount of memory.
func decoder(r io.Reader, names []string) (io.ReadCloser, error) {
	if len(names) > maxCodings {
		return nil, errCoding
	}
	chain := &decoders{Reader: r}
	for _, name := range slices.Backward(names) {
		if err := chain.add(name); err != nil {
			chain.close()
			return nil, err
		}
	}
	return chain, nil
}

// decoders is a chain of decoders. The last one is read.
type decoders struct {
	io.Reader

	closers []func()
}

func (d *decoders) add(name string) error {
	switch name {
	case "gzip", "x-gzip":
		z, err := gzip.NewReader(d.Reader)
		if err != nil {
			return err
		}
		d.Reader = z
	case "deflate":
		z, err := deflate(d.Reader)
		if err != nil {
			return err
		}
		d.Reader = z
	case "br":
		d.Reader = brotli.NewReader(d.Reader)
	case "zstd":
		z, err := zstd.NewReader(d.Reader, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return err
		}
		d.Reader, d.closers = z, append(d.closers, z.Close)
	default:
		return errCoding
	}
	return nil
}

// deflate reads the zlib format, which the coding is, or deflated data without it, which some servers send (RFC 9110 section
// 8.4.1.2).
func deflate(r io.Reader) (io.Reader, error) {
	b := bufio.NewReader(r)
	head, err := b.Peek(2)
	if err != nil {
		return nil, err
	}
	if head[0]&0x0f == 8 && (int(head[0])<<8|int(head[1]))%31 == 0 { // RFC 1950 section 2.2
		return zlib.NewReader(b)
	}
	return flate.NewReader(b), nil
}

func (d *decoders) close() {
	for _, c := range d.closers {
		c()
	}
}

// Close implements [io.Closer].
func (d *decoders) Close() error {
	d.close()
	return nil
}

// decode returns the first n decoded bytes of the body that seen reads, and whether they are all. It reads little more than that takes. A
// body that does not match its Content-Encoding, for example because a proxy has decoded it, is taken as it is. An unknown coding shows
// nothing.
func decode(seen *recorder, names []string, n int) (body []byte, complete bool) {
	d, err := decoder(io.LimitReader(seen, int64(n)+decodeOverhead), names)
	if errors.Is(err, errCoding) {
		return nil, false
	}
	if err == nil {
		body, complete, err = head(d, n)
		_ = d.Close()
	}
	if err != nil && len(body) == 0 {
		body, complete, _ = head(io.MultiReader(bytes.NewReader(bytes.Clone(seen.kept)), seen), n)
	}
	return body, complete
}

// head returns the first n bytes, and whether they are all. The end is no error.
func head(r io.Reader, n int) (body []byte, complete bool, err error) {
	buf := make([]byte, n+1) // one more, to see whether that is all
	got := 0
	for got < len(buf) {
		m, err := r.Read(buf[got:])
		got += m
		if errors.Is(err, io.EOF) {
			return buf[:min(got, n)], got <= n, nil
		}
		if err != nil {
			return buf[:min(got, n)], false, err
		}
	}
	return buf[:n], false, nil
}

const (
	// maxEncoded is how much of an encoded body is kept. A longer one shows nothing: its end cannot be decoded without the rest.
	maxEncoded = 512 << 10
	// maxDecoded bounds the decoding in search of a body's end.
	maxDecoded = 8 << 20
)

// encoded keeps an encoded body, and shows the ends of the decoded one.
type encoded struct {
	codings []string
	kept    []byte
	lost    bool // there was more
}

// Write implements [io.Writer]. It never fails.
func (e *encoded) Write(p []byte) (int, error) {
	if e.lost = e.lost || len(e.kept)+len(p) > maxEncoded; e.lost {
		e.kept = nil
	} else {
		e.kept = append(e.kept, p...)
	}
	return len(p), nil
}

// show decodes what was kept.
func (e *encoded) show() (body []byte, all bool) {
	d, err := decoder(bytes.NewReader(e.kept), e.codings)
	if err != nil {
		return nil, false
	}
	defer func() { _ = d.Close() }()
	var decoded ends
	n, err := io.Copy(&decoded, io.LimitReader(d, maxDecoded))
	body, all = decoded.show()
	return body, all && err == nil && n < maxDecoded && !e.lost
}
