// Command table prints, spec by spec, what the kubelet and podstream did with the conformance specs on a runtime.
// Usage: table -results=DIR -runtime=VERSION [-kubelet=VERSION] [-podstream=COMMIT] [-all]. It exits with 1 if a spec
// that the kubelet passes has another result on podstream in all runs that are needed.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/podstream/podstream/test/cluster/conformance/results"
)

func main() {
	dir := flag.String("results", "", "`directory` of the results")
	runtime := flag.String("runtime", "", "`version` of the runtime")
	kubelet := flag.String("kubelet", "", "`version` of the kubelet; default: the one with the latest results")
	podstream := flag.String("podstream", "", "`commit` of podstream; default: the one with the latest results")
	all := flag.Bool("all", false, "print the specs that both agents pass too")
	flag.Parse()
	bad, err := run(*dir, *runtime, *kubelet, *podstream, *all)
	if err != nil {
		fmt.Fprintln(os.Stderr, "table:", err)
		os.Exit(2)
	}
	if bad {
		os.Exit(1)
	}
}

// run prints the table, and reports whether podstream fails a spec that the kubelet passes.
func run(dir, runtime, kubelet, podstream string, all bool) (bad bool, err error) {
	sides := make([]map[string][]results.Result, 2)
	for i, key := range []results.Key{{Agent: "kubelet", Commit: kubelet, Runtime: runtime}, {Agent: "podstream", Commit: podstream, Runtime: runtime}} {
		if key.Commit == "" {
			commits, err := results.Commits(dir, key.Agent, key.Runtime)
			if err != nil {
				return false, err
			}
			if len(commits) == 0 {
				return false, fmt.Errorf("%s has no results of %s on %s", dir, key.Agent, key.Runtime)
			}
			key.Commit = commits[0]
		}
		if sides[i], err = results.Load(dir, key); err != nil {
			return false, err
		}
		fmt.Printf("%s %s on %s\n\n", key.Agent, key.Commit, key.Runtime)
	}
	rows := results.Compare(sides[0], sides[1])
	fmt.Print(results.Table(rows, all))
	for _, r := range rows {
		bad = bad || r.Counts() && r.Kubelet == results.Passes
	}
	return bad, nil
}
