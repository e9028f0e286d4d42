// Command sbom prints what Go programs are built from, as a CycloneDX document: each module that is linked, with its version, as the linker
// recorded it.
//
//	sbom headway VERSION FILE...
//
// Source of the format: https://cyclonedx.org/docs/1.6/json/
package main

import (
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
)

// A component is a module or a program.
type component struct {
	Type    string `json:"type"`
	Name    string `json:"name"`
	Version string `json:"version"`
	PURL    string `json:"purl,omitempty"`
	Ref     string `json:"bom-ref,omitempty"`
}

// A document is the part of a CycloneDX document that is printed.
type document struct {
	Format     string      `json:"bomFormat"`
	Spec       string      `json:"specVersion"`
	Version    int         `json:"version"`
	Metadata   metadata    `json:"metadata"`
	Components []component `json:"components"`
}

// metadata names the program.
type metadata struct {
	Component component `json:"component"`
}

func main() {
	if len(os.Args) < 4 { //nolint:mnd // the usage above
		fmt.Fprintln(os.Stderr, "usage: sbom NAME VERSION FILE...")
		os.Exit(2)
	}
	text, err := describe(os.Args[1], os.Args[2], os.Args[3:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
	fmt.Println(string(text))
}

// describe returns the document of programs, whose modules it merges: files for other systems may link others.
func describe(name, version string, files []string) ([]byte, error) {
	d := document{Format: "CycloneDX", Spec: "1.6", Version: 1}
	d.Metadata.Component = component{Type: "application", Name: name, Version: version}
	add := func(path, version string) {
		purl := "pkg:golang/" + path + "@" + version
		d.Components = append(d.Components, component{Type: "library", Name: path, Version: version, PURL: purl, Ref: purl})
	}
	for _, file := range files {
		info, err := buildinfo.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
		add("stdlib", strings.TrimPrefix(info.GoVersion, "go"))
		for _, m := range info.Deps {
			if m.Replace != nil {
				return nil, fmt.Errorf("%s replaces %s, so its version is not known: build it from a release", file, m.Path)
			}
			add(m.Path, m.Version)
		}
	}
	slices.SortFunc(d.Components, func(a, b component) int { return strings.Compare(a.Ref, b.Ref) })
	d.Components = slices.Compact(d.Components)
	return json.MarshalIndent(d, "", "  ")
}
