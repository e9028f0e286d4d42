package serve_test

import "testing"

var document spec

type spec struct{}

func (spec) check(*testing.T, string, int, map[string]any) {}
