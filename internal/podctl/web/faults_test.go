//go:build failpoints

package web_test

import (
	"slices"
	"testing"

	"github.com/podstream/podstream/internal/failpoint"
)

// TestFaultAttacks: each attack succeeds without the checks that stop it, and each of these checks alone stops it.
func TestFaultAttacks(t *testing.T) {
	for _, a := range attacks {
		t.Run(a.name, func(t *testing.T) {
			t.Run("without its checks", func(t *testing.T) {
				defer leaveOut(a.checks...)()
				if answer, success := a.attempt(t); !success {
					t.Errorf("it fails without %v: %.300q; want it to succeed", a.checks, answer)
				}
			})
			for _, check := range a.checks {
				t.Run("with "+string(check), func(t *testing.T) {
					others := slices.DeleteFunc(slices.Clone(a.checks), func(n failpoint.Name) bool { return n == check })
					defer leaveOut(others...)()
					if answer, success := a.attempt(t); success {
						t.Errorf("it succeeds without %v: %.300q; want %s to stop it", others, answer, check)
					}
				})
			}
		})
	}
}

// TestFaultsHaveAttacks: each fault of podctl web is one of an attack.
func TestFaultsHaveAttacks(t *testing.T) {
	for _, name := range failpoint.WebNames() {
		if !slices.ContainsFunc(attacks, func(a attack) bool { return slices.Contains(a.checks, name) }) {
			t.Errorf("no attack shows what %s is for", name)
		}
	}
}

// leaveOut switches checks off, until undo is called.
func leaveOut(checks ...failpoint.Name) (undo func()) {
	var undos []func()
	for _, check := range checks {
		undos = append(undos, failpoint.Enable(check))
	}
	return func() {
		for _, undo := range undos {
			undo()
		}
	}
}
