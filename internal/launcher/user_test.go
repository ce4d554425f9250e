package launcher

import (
	"errors"
	"os/user"
	"testing"
)

// TestSystemUser: podconfigd has the system user of that name. An account of a person, or root, never runs it.
func TestSystemUser(t *testing.T) {
	fallback := identity{fallbackID, fallbackID}
	for name, test := range map[string]struct {
		found *user.User
		want  identity
	}{
		"a system user":          {&user.User{Uid: "997", Gid: "995"}, identity{997, 995}},
		"none":                   {nil, fallback},
		"root":                   {&user.User{Uid: "0", Gid: "995"}, fallback},
		"root's group":           {&user.User{Uid: "997", Gid: "0"}, fallback},
		"a person":               {&user.User{Uid: "1000", Gid: "995"}, fallback},
		"the user of images":     {&user.User{Uid: "65532", Gid: "65532"}, fallback},
		"a number out of range":  {&user.User{Uid: "-1", Gid: "995"}, fallback},
		"something else than it": {&user.User{Uid: "S-1-5", Gid: "995"}, fallback},
	} {
		got := systemUser(func(asked string) (*user.User, error) {
			if asked != userName || test.found == nil {
				return nil, errors.New("unknown")
			}
			return test.found, nil
		})
		if got != test.want {
			t.Errorf("%s: %+v; want %+v", name, got, test.want)
		}
	}
}
