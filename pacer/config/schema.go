package config

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/headway-go/headway/policies/specs"
)

// object is a part of a JSON Schema.
type object = map[string]any

// Schema returns the JSON Schema (draft 2020-12) of the files, for editors and other tools: docs/headway.schema.json is this text. Name it
// in the first line of a file, in a comment such as "# yaml-language-server: $schema=headway.schema.json". It knows fields, words and
// vendors; [Parse] checks more.
func Schema() []byte {
	text := object{"type": []string{"string", "number", "boolean"}}
	duration := object{"type": "string", "description": "a duration such as 250ms, 30s or 1m30s"}
	variable := object{"type": "string", "pattern": variableGrammar.String()}
	upstream := fieldsOf(object{
		"store":        object{"type": "string"},
		"policies":     object{"anyOf": []any{object{"const": "none"}, object{"type": "array", "maxItems": maxPolicies, "items": policySchema()}}},
		"overrides":    object{"type": "array", "items": overrideSchema(text)},
		"profile":      object{"enum": slices.Sorted(maps.Keys(profiles()))},
		"leave":        text,
		"backOff":      duration,
		"hosts":        oneOrList(object{"type": "string"}),
		"url":          object{"type": "string"},
		"maxWait":      duration,
		"maxPause":     duration,
		"jitter":       duration,
		"maxLate":      duration,
		"storeTimeout": duration,
		"ignoreCounts": object{"type": "boolean"},
		"processes":    object{"type": "integer", "minimum": 1, "maximum": maxProcesses},
		"outage":       object{"enum": slices.Sorted(maps.Keys(outages))},
	})
	file := fieldsOf(object{
		"stores": object{"type": "object", "maxProperties": maxStores, "additionalProperties": fieldsOf(object{
			"redis": oneOrList(object{"type": "string"}), "redisEnv": variable, "cluster": object{"type": "boolean"}, "master": object{"type": "string"},
			"username": object{"type": "string"}, fieldPasswordEnv: variable,
		})},
		"store":     object{"type": "string"},
		"unpaced":   oneOrList(object{"type": "string"}),
		"upstreams": object{"type": "object", "minProperties": 1, "maxProperties": maxUpstreams, "additionalProperties": upstream},
	}, "upstreams")
	file["$schema"], file["title"] = "https://json-schema.org/draft/2020-12/schema", "headway.yaml"
	b, err := json.MarshalIndent(file, "", "\t")
	if err != nil {
		panic(err) // it has nothing that JSON does not
	}
	return append(b, '\n')
}

// fieldsOf returns the schema of a mapping with these fields and no others.
func fieldsOf(fields object, required ...string) object {
	o := object{"type": "object", "properties": fields, "additionalProperties": false}
	if len(required) > 0 {
		o["required"] = required
	}
	return o
}

// oneOrList returns the schema of one value or a list of them.
func oneOrList(one object) object {
	return object{"anyOf": []any{one, object{"type": "array", "minItems": 1, "items": one}}}
}

func overrideSchema(text object) object {
	return fieldsOf(object{"policy": object{"type": "string"}, "for": oneOrList(text), "limit": text}, "policy", "for", "limit")
}

// policySchema returns the schema of a policy: a text, a text with a name, which YAML reads as a mapping, or limits of a vendor.
func policySchema() object {
	named := object{"type": "object", "minProperties": 1, "maxProperties": 1, "propertyNames": object{"not": object{"const": fieldLimits}}, "additionalProperties": object{"type": []string{"string", "number"}}}
	all := constructors()
	anyOf := append(make([]any, 0, len(all)+2), object{"type": []string{"string", "number"}}, named) //nolint:mnd // and those two
	for _, name := range slices.Sorted(maps.Keys(all)) {
		names := []string{name}
		if vendor, ok := strings.CutSuffix(name, ".Limits"); ok {
			names = append(names, vendor)
		}
		params := all[name].params
		fields, required := object{fieldLimits: object{"enum": names}}, append(make([]string, 0, 1+len(params)), fieldLimits)
		for _, p := range params {
			fields[p.name], required = p.schema(), append(required, p.name)
		}
		anyOf = append(anyOf, fieldsOf(fields, required...))
	}
	return object{"anyOf": anyOf}
}

func (p param) schema() object {
	o := object{"type": "string", "description": p.describe()}
	switch p.kind {
	case aNumber:
		o["type"], o["minimum"], o["maximum"] = "integer", 0, specs.MaxLimit
	case aWord:
		o["enum"] = slices.Sorted(maps.Keys(p.words))
	case aZone, aName, aDuration:
	}
	return o
}
