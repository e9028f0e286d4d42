package server

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"time"

	"github.com/headway-go/headway/pacer/page/internal/assets"
)

// A file is one that browsers load.
type file struct {
	name, tag string
	data      []byte
}

// embedded returns all files by name.
func embedded() map[string]file {
	all := make(map[string]file)
	for name, data := range assets.All() {
		sum := sha256.Sum256(data)
		all[name] = file{name: name, tag: `"` + hex.EncodeToString(sum[:12]) + `"`, data: data}
	}
	return all
}

// serve writes the file. Browsers may keep it, but revalidate each time: another version of the program has other files.
func (f *file) serve(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("Content-Type", assets.TypeOf(f.name))
	w.Header().Set("ETag", f.tag)
	http.ServeContent(w, r, f.name, time.Time{}, bytes.NewReader(f.data))
}
