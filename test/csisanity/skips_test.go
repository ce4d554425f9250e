package csisanity

import (
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/onsi/ginkgo/v2/types"
)

//go:embed testdata/skips.txt
var skipsText string

// all stands for all variants.
const all = "all"

// expected reports whether the list has a spec as one that a variant skips.
func expected(variant, spec string) bool {
	var variants []string
	for line := range strings.Lines(skipsText) {
		line = strings.TrimSpace(line)
		if heading, ok := strings.CutPrefix(line, "# "); ok {
			variants = strings.Split(heading[strings.LastIndex(heading, ": ")+len(": "):], ", ")
		} else if line == spec && (slices.Contains(variants, all) || slices.Contains(variants, variant)) {
			return true
		}
	}
	return false
}

// listed are the specs of the list.
func listed() (specs []string) {
	for line := range strings.Lines(skipsText) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			specs = append(specs, line)
		}
	}
	return specs
}

// checkSkips returns an error if other specs were skipped than those of the list.
func checkSkips(reports types.SpecReports) error {
	var errs []error
	missing := listed()
	for i := range reports {
		report := &reports[i]
		if !report.LeafNodeType.Is(types.NodeTypeIt) {
			continue
		}
		variant := report.ContainerHierarchyTexts[0]
		spec := strings.TrimPrefix(report.FullText(), variant+" ")
		missing = slices.DeleteFunc(missing, func(s string) bool { return s == spec })
		is := report.State.Is(types.SpecStateSkipped | types.SpecStatePending)
		if want := expected(variant, spec); is && !want {
			errs = append(errs, fmt.Errorf("%s skips a spec that testdata/skips.txt doesn't list: %s: %s", variant, spec, report.Failure.Message))
		} else if want && !is {
			errs = append(errs, fmt.Errorf("%s doesn't skip a spec that testdata/skips.txt lists: %s", variant, spec))
		}
	}
	for _, spec := range missing {
		errs = append(errs, fmt.Errorf("testdata/skips.txt lists a spec that doesn't exist: %s", spec))
	}
	return errors.Join(errs...)
}
