// Package config makes pacers from a file, headway.yaml, and follows the file while the program runs. The file holds upstreams with their
// policies, stores, hosts and durations. docs/config.md describes it; the command "headway check" checks it.
//
//	p, err := config.Open(ctx, "headway.yaml", report)
//	if err != nil {
//		return err // every mistake of the file, with its line and column
//	}
//	defer p.Close()
//	client, err := p.Client()
//
// Changed policies take effect at once, other changes when the program is started again. A file with mistakes changes nothing. report
// receives all three.
//
// [Load] and [Parse] only read a file. [File.Open] makes its stores and pacers without following it. [Watch] is for programs that do
// something else with a file that changes.
package config
