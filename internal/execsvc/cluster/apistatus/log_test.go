package apistatus_test

import (
	"strings"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// wantLog checks the levels and messages logged since the last call.
func (n *node) wantLog(want ...string) {
	n.t.Helper()
	var got []string
	for _, line := range n.log.Take() {
		if _, rest, ok := strings.Cut(line, "level="); ok {
			level, message, _ := strings.Cut(rest, " ")
			got = append(got, level+" "+strings.SplitN(message, `"`, 3)[1])
		}
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		n.t.Errorf("the log (-want +got):\n%s", diff)
	}
}
