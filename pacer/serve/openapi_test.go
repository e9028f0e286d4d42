package serve_test

import (
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/serve"
)

// types are those that the document describes.
var types = map[string]any{
	"AcquireRequest": serve.AcquireRequest{}, "AcquireReply": serve.AcquireReply{}, "ReleaseRequest": serve.ReleaseRequest{},
	"SettleRequest": serve.SettleRequest{}, "ReportRequest": serve.ReportRequest{}, "Done": serve.Done{}, "Status": serve.Status{}, "Problem": serve.Problem{},
}

// A schema is one of the document's.
type schema struct {
	Ref                  string            `json:"$ref"`
	Type                 string            `json:"type"`
	Properties           map[string]schema `json:"properties"`
	AdditionalProperties any               `json:"additionalProperties"`
	Required             []string          `json:"required"`
	Enum                 []string          `json:"enum"`
}

// A content is a body by its media type.
type content map[string]struct{ Schema schema }

// A spec is the document, as far as it is held against the handlers.
type spec struct {
	Paths map[string]map[string]struct {
		RequestBody struct{ Content content }
		Responses   map[string]struct {
			Ref     string `json:"$ref"`
			Content content
		}
	}
	Components struct {
		Responses map[string]struct{ Content content }
		Schemas   map[string]schema
	}
}

// document returns the document that a server serves.
func document(r *rig) (d spec) {
	status, body := r.read("/v1/openapi.json")
	require.Equal(r.t, http.StatusOK, status)
	require.NoError(r.t, json.Unmarshal([]byte(body), &d))
	return d
}

// check requires that an answer is one that the document describes.
func (d *spec) check(t *testing.T, path string, status int, out map[string]any) {
	t.Helper()
	answers := d.Paths[path]["post"].Responses
	kind, name := "application/json", "200"
	if status != http.StatusOK {
		kind, name = "application/problem+json", "default"
	}
	answer := answers[name].Content
	if ref := answers[name].Ref; ref != "" {
		answer = d.Components.Responses[strings.TrimPrefix(ref, "#/components/responses/")].Content
	}
	s := d.Components.Schemas[strings.TrimPrefix(answer[kind].Schema.Ref, "#/components/schemas/")]
	require.NotEmpty(t, s.Type, "%s: %d", path, status)
	for field, value := range out {
		require.Contains(t, s.Properties, field)
		require.Equal(t, s.Properties[field].Type, map[string]string{"string": "string", "float64": "integer"}[reflect.TypeOf(value).String()], field)
		if enum := s.Properties[field].Enum; enum != nil {
			require.Contains(t, enum, value)
		}
	}
	for _, field := range s.Required {
		require.Contains(t, out, field)
	}
}

// The document has the routes of the API, and each field of its types, with its kind and whether it is always there.
func TestTheDocumentIsTrue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, crm, nil)
		d := document(r)
		require.Len(t, d.Components.Schemas, len(types))
		for name, s := range d.Components.Schemas {
			require.Contains(t, types, name)
			of := reflect.TypeOf(types[name])
			require.Len(t, s.Properties, of.NumField(), name)
			isRequest := strings.HasSuffix(name, "Request")
			require.Equal(t, isRequest, s.AdditionalProperties == false, name)
			var required []string
			for i := range of.NumField() {
				field, options, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
				require.Contains(t, s.Properties, field, name)
				require.Equal(t, kindOf(of.Field(i).Type), s.Properties[field].Type, "%s.%s", name, field)
				if options == "" {
					required = append(required, field)
				}
			}
			require.Equal(t, required, s.Required, name)
		}
		for path, methods := range d.Paths {
			for method, operation := range methods {
				require.Contains(t, operation.Responses, "default")
				for _, tried := range []string{http.MethodGet, http.MethodPost, http.MethodPut} {
					req, err := http.NewRequestWithContext(t.Context(), tried, "http://localhost:1"+path, strings.NewReader("{}"))
					require.NoError(t, err)
					resp, err := r.client.Do(req)
					require.NoError(t, err)
					require.NoError(t, resp.Body.Close())
					require.Equal(t, strings.EqualFold(tried, method), resp.StatusCode != http.StatusMethodNotAllowed, "%s %s", tried, path)
					require.NotEqual(t, http.StatusNotFound, resp.StatusCode, path)
				}
			}
		}
	})
}

// kindOf returns how JSON Schema calls a type.
func kindOf(of reflect.Type) string {
	switch of.Kind() { //nolint:exhaustive // the others are none of the API's
	case reflect.Pointer:
		return kindOf(of.Elem())
	case reflect.String:
		return "string"
	case reflect.Int, reflect.Int64:
		return "integer"
	case reflect.Bool:
		return "boolean"
	case reflect.Slice:
		return "array"
	}
	return "object"
}
