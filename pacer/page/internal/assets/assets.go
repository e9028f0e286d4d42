// Package assets has the files that a browser loads from the page. They are embedded, so that a program needs neither a build step nor a
// network.
package assets

import (
	"embed"
	"path"
	"strings"
)

//go:embed index.html *.js *.css icon.svg uplot/uPlot.iife.min.js uplot/uPlot.min.css uplot/LICENSE
var files embed.FS

// All returns the files by their base names, which differ.
func All() map[string][]byte {
	all := make(map[string][]byte)
	for _, dir := range []string{".", "uplot"} {
		entries, err := files.ReadDir(dir)
		if err != nil {
			panic(err) // they are embedded
		}
		for _, e := range entries {
			if e.IsDir() {
				continue
			}
			name := path.Join(dir, e.Name())
			data, err := files.ReadFile(name)
			if err != nil {
				panic(err)
			}
			all[e.Name()] = data
		}
	}
	return all
}

// TypeOf returns the media type of a file, without the machine's table, which may lack it or have a wrong one: with nosniff, a browser
// refuses a script of the wrong type.
func TypeOf(name string) string {
	switch {
	case strings.HasSuffix(name, ".html"):
		return "text/html; charset=utf-8"
	case strings.HasSuffix(name, ".js"):
		return "text/javascript; charset=utf-8"
	case strings.HasSuffix(name, ".css"):
		return "text/css; charset=utf-8"
	case strings.HasSuffix(name, ".svg"):
		return "image/svg+xml"
	}
	return "text/plain; charset=utf-8"
}
