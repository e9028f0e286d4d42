module github.com/headway-go/headway/examples/zendesk

go 1.26.0

require github.com/headway-go/headway v0.0.0

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/guptarohit/asciigraph v0.10.0 // indirect
	github.com/mitchellh/colorstring v0.0.0-20190213212951-d06e56a500db // indirect
	github.com/nukosuke/go-zendesk v0.18.0 // indirect
	github.com/redis/go-redis/v9 v9.23.0 // indirect
	github.com/rivo/uniseg v0.4.7 // indirect
	github.com/schollz/progressbar/v3 v3.19.1 // indirect
	github.com/stretchr/testify v1.12.1 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/term v0.47.0 // indirect
)

replace github.com/headway-go/headway => ../..
