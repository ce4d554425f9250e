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
	text, grade, err := results.Report(*dir, results.Key{Runtime: *runtime, Specs: *specs}, [2]string{*kubelet, *podstream}, *all)
	if err != nil {
		fmt.Fprintln(os.Stderr, "table:", err)
		os.Exit(2)
	}
	fmt.Print(text)
	if grade != results.Good {
		os.Exit(1)
	}
}
