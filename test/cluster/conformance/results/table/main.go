// Command table prints, spec by spec, what the kubelet and podstream did with the conformance specs on a runtime.
// Usage: table -results=DIR -runtime=VERSION -specs=VERSION [-kubelet=VERSION] [-podstream=COMMIT] [-all]. It exits with
// 1 if podstream doesn't do what the kubelet does, or if that isn't known of each spec.
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
	specs := flag.String("specs", "", "`version` of Kubernetes that the specs are of")
	kubelet := flag.String("kubelet", "", "`version` of the kubelet; default: the one with the latest results")
	podstream := flag.String("podstream", "", "`commit` of podstream; default: the one with the latest results")
	all := flag.Bool("all", false, "print the specs that both agents pass too")
	flag.Parse()
	good, err := run(*dir, results.Key{Runtime: *runtime, Specs: *specs}, []string{*kubelet, *podstream}, *all)
	if err != nil {
		fmt.Fprintln(os.Stderr, "table:", err)
		os.Exit(2)
	}
	if !good {
		os.Exit(1)
	}
}

// run prints the table, and reports whether podstream does what the kubelet does.
func run(dir string, key results.Key, commits []string, all bool) (good bool, err error) {
	sides := make([]map[string][]results.Result, 2)
	for i, agent := range []string{"kubelet", "podstream"} {
		key.Agent, key.Commit = agent, commits[i]
		if key.Commit == "" {
			key.Commit, sides[i], err = results.Latest(dir, key)
		} else {
			sides[i], err = results.Load(dir, key)
		}
		if err != nil {
			return false, err
		}
		if len(sides[i]) == 0 {
			return false, fmt.Errorf("%s has no results of %s %s on %s", dir, agent, key.Commit, key.Runtime)
		}
		fmt.Printf("%s %s on %s\n\n", agent, key.Commit, key.Runtime)
	}
	rows := results.Compare(sides[0], sides[1])
	summary, good := results.Summary(rows)
	fmt.Printf("%s\n%s\n", results.Table(rows, all), summary)
	return good, nil
}
