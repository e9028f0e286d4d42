module github.com/headway-go/headway/pacer/bench

go 1.26.0

require github.com/headway-go/headway v0.0.0

replace github.com/headway-go/headway => ../..
