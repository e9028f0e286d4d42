// Package config reads what a program paces from a file, headway.yaml, and follows the file while the program runs: upstreams with
// their policies, stores, hosts and durations. docs/config.md describes the file; the command "headway check" checks one.
//
//	p, err := config.Open(ctx, "headway.yaml", report)
//	if err != nil {
//		return err // every mistake of the file, with its line and column
//	}
//	defer p.Close()
//	rt, err := p.Router()
//	client := &http.Client{Transport: rt}
//
// A changed file holds at once as far as its policies are concerned. What else has changed holds from the next start, and a file with
// mistakes changes nothing: report is told of both.
//
// [Load] and [Parse] only read a file, [File.Open] makes its stores and pacers without following it, and [Watch] is for programs that
// do something else with a file that changes.
package config
