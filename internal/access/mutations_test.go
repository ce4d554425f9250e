package access

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podstream/podstream/internal/certtest"
)

// TestNoCertificateOfAUser: a certificate whose name starts like a local user's identity has no role, whichever user
// it is, and whichever of its names is used, even if the access file gives it one.
func TestNoCertificateOfAUser(t *testing.T) {
	ca := certtest.NewCA(t, "ca")
	files := newTLSFiles(t, ca, "clients:\n- {organization: all, role: operator}\n- {commonName: 'uid:1000', role: operator}\n")
	a := open(t, files.config(), &strings.Builder{})
	for _, r := range []certtest.Request{
		{CommonName: "uid:1000"}, {CommonName: "uid:"}, {CommonName: "uid:0", Organization: "all"}, {CommonName: "uid:7", Organization: "all"},
		{URI: "uid:1000", Organization: "all"},
	} {
		c, err := authorize(a, client(t, a, ca, r), "/s/Pods")
		if want := "certificate:" + r.CommonName + r.URI; err == nil || c.Role != None || c.Identity != want {
			t.Errorf("the certificate %+v is %+v, %v; want %s without a role", r, c, err, want)
		}
	}
}

// TestScopeChanges: a change of any part of a caller's rights ends its connections; the same rules in another form
// don't.
func TestScopeChanges(t *testing.T) {
	for name, tc := range map[string]struct {
		before, after string
		ends          bool
	}{
		"fewer sources":    {"role: consumer, sources: [file, api]", "role: consumer, sources: [file]", true},
		"other sources":    {"role: consumer, sources: [file]", "role: consumer, sources: [api]", true},
		"all sources":      {"role: consumer, sources: [file]", "role: consumer", true},
		"other nodes":      {"role: consumer, nodes: [a]", "role: consumer, nodes: [b]", true},
		"all nodes":        {"role: consumer, nodes: [a]", "role: consumer", true},
		"another role":     {"role: consumer", "role: inspector", true},
		"other words only": {"role: consumer, sources: [file]", "sources: ['file'], role: consumer", false},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "access")
			certtest.WriteFile(t, path, []byte("clients:\n- {uid: 7, "+tc.before+"}\n"))
			a := open(t, Config{File: path}, &strings.Builder{})
			connection := uid(a, 7)
			if err := a.Recheck(connection); err != nil {
				t.Fatalf("before the change: %v; want nil", err)
			}
			certtest.WriteFile(t, path, []byte("clients:\n- {uid: 7, "+tc.after+"}\n"))
			a.Reload()
			a.Reload()
			if err := a.Recheck(connection); (err != nil) != tc.ends {
				t.Errorf("after the change: %v; want an error: %v", err, tc.ends)
			}
		})
	}
}

// reloading is a group of one file, and the contents that it applied.
type reloading struct {
	*fileGroup
	t    *testing.T
	path string
	used []string
	log  strings.Builder
}

func newReloading(t *testing.T) *reloading {
	r := &reloading{t: t, path: filepath.Join(t.TempDir(), "file")}
	r.fileGroup = &fileGroup{paths: []string{r.path}, log: slog.New(slog.NewTextHandler(&r.log, nil)), use: func(contents [][]byte) error {
		if strings.HasPrefix(string(contents[0]), "bad") {
			return os.ErrInvalid
		}
		r.used = append(r.used, string(contents[0]))
		return nil
	}}
	r.write("first")
	if err := r.load(); err != nil {
		t.Fatal(err)
	}
	return r
}

// write puts text into the file; without text the file is gone.
func (r *reloading) write(text string) {
	if text == "" {
		if err := os.Remove(r.path); err != nil {
			r.t.Fatal(err)
		}
		return
	}
	certtest.WriteFile(r.t, r.path, []byte(text))
}

// TestReload: contents are applied after two successive readings with them, whatever the former readings found.
func TestReload(t *testing.T) {
	for name, tc := range map[string]struct {
		// readings are what the file has at each of them.
		readings []string
		want     string
	}{
		"twice in a row":                       {[]string{"a", "a"}, "first a"},
		"once":                                 {[]string{"a"}, "first"},
		"another in between":                   {[]string{"a", "b", "a"}, "first"},
		"the former in between":                {[]string{"a", "first", "a"}, "first"},
		"gone in between":                      {[]string{"a", "", "a"}, "first"},
		"gone in between, and then twice":      {[]string{"a", "", "a", "a"}, "first a"},
		"good after bad":                       {[]string{"bad", "bad", "a", "a"}, "first a"},
		"good after bad and the former":        {[]string{"bad", "bad", "first", "a", "a"}, "first a"},
		"good after bad and gone":              {[]string{"bad", "bad", "", "a", "a"}, "first a"},
		"one after the other":                  {[]string{"a", "a", "b", "b"}, "first a b"},
		"back to the one before":               {[]string{"a", "a", "first", "first"}, "first a first"},
		"back to the one before, once":         {[]string{"a", "a", "first", "a", "first"}, "first a"},
		"bad is tried once":                    {[]string{"bad", "bad", "bad", "bad"}, "first"},
		"good after two that are bad":          {[]string{"bad", "bad", "bad2", "bad2", "a", "a"}, "first a"},
		"the one before after a change to bad": {[]string{"a", "a", "bad", "bad", "a", "a"}, "first a"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReloading(t)
			gone := false
			for _, text := range tc.readings {
				if text != "" || !gone {
					r.write(text)
				}
				gone = text == ""
				r.reload()
			}
			if got := strings.Join(r.used, " "); got != tc.want {
				t.Errorf("in use were %s; want %s", got, tc.want)
			}
		})
	}
}

// TestReloadLogsAgain: a problem is logged once as long as it lasts, and again when it returns.
func TestReloadLogsAgain(t *testing.T) {
	r := newReloading(t)
	lines := func(text string, readings int, want int) {
		t.Helper()
		r.write(text)
		for range readings {
			r.reload()
		}
		if got := strings.Count(r.log.String(), "can't be used"); got != want {
			t.Errorf("after %q the log tells of %d problems; want %d:\n%s", text, got, want, &r.log)
		}
	}
	lines("bad", 4, 1)
	lines("a", 2, 1)
	lines("bad", 4, 2)
	lines("a", 2, 2)
	lines("bad", 4, 3)
}
