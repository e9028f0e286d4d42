package serve

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"slices"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/transport"
)

// credentials are what a file adds to the requests of upstreams, by name.
type credentials map[string]*credential

// A credential is a header field that is set on each request, to one of several values.
type credential struct {
	Header string   `json:"header"` // defaults to Authorization
	Scope  string   `json:"scope"`  // of the policies of each credential; "" for one credential
	Values []secret `json:"credentials"`
}

// A secret is one of the values.
type secret struct {
	ID      string `json:"id"`
	Account string `json:"account"`
	Weight  int    `json:"weight"`
	Value   string `json:"value"`
}

// Modes of a file of credentials. systemd and Kubernetes give a service a file of root's that its group may read.
const (
	ofOwner   = 0o600
	ofService = 0o440
)

// readCredentials reads a file that others may not read. Errors repeat nothing of it.
func readCredentials(path string) (credentials, error) {
	if path == "" {
		return nil, nil //nolint:nilnil // there are none
	}
	file, err := os.Open(path) //nolint:gosec // the operator chooses the file
	if err != nil {
		return nil, bad("Credentials", path, "cannot be read: "+err.Error())
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return nil, bad("Credentials", path, "cannot be read")
	}
	if mode := info.Mode().Perm(); mode&^ofOwner != 0 && mode&^ofService != 0 {
		return nil, bad("Credentials", path, "can be read by others: chmod 600 "+path)
	}
	var all credentials
	d := json.NewDecoder(file)
	d.DisallowUnknownFields()
	broken := d.Decode(&all) != nil
	if _, more := d.Token(); broken || !errors.Is(more, io.EOF) {
		return nil, bad("Credentials", path, "is not the JSON that docs/serve.md describes")
	}
	for _, c := range all {
		if c == nil || len(c.Values) == 0 || c.Scope == "" && len(c.Values) > 1 {
			return nil, bad("Credentials", path, "each upstream must have one credential, or a scope and several")
		}
		if slices.ContainsFunc(c.Values, func(one secret) bool { return one.Value == "" }) {
			return nil, bad("Credentials", path, "each credential must have a value")
		}
	}
	return all, nil
}

// option returns the transport option that adds the credential, and its pool; a nil pool if it is the only credential.
func (c *credential) option(p *pacer.Pacer) (transport.Option, *pacer.Pool, error) {
	header, values := c.Header, make(map[string]string)
	if header == "" {
		header = "Authorization"
	}
	if c.Scope == "" {
		value := c.Values[0].Value
		return transport.WithSigner(func(r *http.Request) error {
			r.Header.Set(header, value)
			return nil
		}), nil, nil
	}
	all := make([]pacer.Credential, 0, len(c.Values))
	for _, one := range c.Values {
		all = append(all, pacer.Credential{ID: one.ID, Account: one.Account, Weight: one.Weight})
		values[one.ID] = one.Value
	}
	pool, err := p.Pool(all, c.Scope)
	if err != nil {
		return nil, nil, err
	}
	return transport.WithPool(pool, func(r *http.Request, id string) error {
		r.Header.Set(header, values[id])
		return nil
	}), pool, nil
}
