package web_test

import (
	"strings"
	"testing"

	"github.com/podstream/podstream/internal/podctl/web"
)

// TestAttacks: each attack is refused.
func TestAttacks(t *testing.T) {
	for _, a := range attacks {
		t.Run(a.name, func(t *testing.T) { a.wantRefused(t) })
	}
}

// wantRefused attacks a podctl web, and fails if that succeeds.
func (a attack) wantRefused(t *testing.T) {
	t.Helper()
	answer, success := a.attempt(t)
	if success || !strings.Contains(answer, a.refused) {
		t.Errorf("success: %v; the answer is %.300q; want that it is refused by %q", success, answer, a.refused)
	}
}

// attempt attacks a podctl web.
func (a attack) attempt(t *testing.T) (answer string, success bool) {
	t.Helper()
	x := start(t, func(cfg *web.Config) {
		if a.config != nil {
			a.config(t, cfg)
		}
	})
	return a.run(t, x)
}
