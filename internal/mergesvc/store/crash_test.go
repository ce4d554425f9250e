package store_test

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podstream/podstream/internal/mergesvc/revision"
	"github.com/podstream/podstream/internal/mergesvc/store"
)

// committerEnv makes the test binary commit to the store that it names, endlessly.
const committerEnv = "PODSTREAM_TEST_COMMIT_TO"

// scripted returns the revision of a number, which is the same in every process.
func scripted(number uint64) *revision.Revision {
	return drawRevision(rand.New(rand.NewPCG(number, 1)).IntN, number)
}

// commitForever commits the scripted revisions, a few at a time, and reports each commit once it is
// acknowledged. In between, it replaces the store with its own contents.
func commitForever(path string) int {
	st, c, err := store.Open(store.Config{Path: path, Tombstones: 5})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	m := newModel(5, c)
	for {
		fmt.Println(m.number)
		var revs []*revision.Revision
		for n := range m.number%3 + 1 {
			revs = append(revs, scripted(m.number+n+1))
		}
		err := st.Commit(revs)
		if m.apply(revs...); err == nil && m.number%10 < 3 {
			err = st.Replace(m.contents())
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
}

// TestKill kills a process during its commits, repeatedly on one store. All acknowledged commits are stored;
// the commit under way is stored completely or not at all (G6).
func TestKill(t *testing.T) {
	s := newSetting(t)
	s.cfg.Tombstones = 5
	random := rand.New(rand.NewPCG(1, 2))
	instance, m := "", newModel(5, &store.Contents{ReadySources: map[string]uint64{}})
	for range 25 {
		acknowledged := runCommitter(t, s.cfg.Path, random.IntN(12))
		st, c := s.open(t)
		mustClose(t, st)
		if instance == "" {
			instance, m.instance = c.Instance, c.Instance
		}
		// They were committed one, two or three at a time.
		if c.Instance != instance || c.Number < acknowledged || c.Number > acknowledged+acknowledged%3+1 {
			t.Fatalf("the store is %s at revision %d; want %s at %d, or after the next commit", c.Instance, c.Number, instance, acknowledged)
		}
		if c.Number != acknowledged && c.Number != acknowledged+acknowledged%3+1 {
			t.Fatalf("the store is at revision %d, within a commit; want %d, or after the next commit", c.Number, acknowledged)
		}
		for m.number < c.Number {
			m.apply(scripted(m.number + 1))
		}
		if diff := cmp.Diff(describe(m.contents()), describe(c)); diff != "" {
			t.Fatalf("the store at revision %d (-want +got):\n%s", c.Number, diff)
		}
	}
	if strings.Contains(s.log.String(), "aside") {
		t.Errorf("a store was set aside:\n%s", s.log)
	}
}

// runCommitter starts a committer, kills it after some commits, and returns the last revision that it reported.
func runCommitter(t *testing.T, path string, commits int) uint64 {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), committerEnv+"="+path)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	last, lines := uint64(0), bufio.NewScanner(out)
	for n := 0; lines.Scan(); n++ {
		if last, err = strconv.ParseUint(lines.Text(), 10, 64); err != nil {
			t.Fatal(err)
		}
		if n == commits {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatalf("the committer ended by itself: %v", err)
	}
	return last
}

// TestKilledWhileMaking: files of a process that ended before its new store was complete are ignored.
func TestKilledWhileMaking(t *testing.T) {
	s := newSetting(t)
	if err := os.WriteFile(s.cfg.Path+".new", []byte("half of it"), 0o644); err != nil {
		t.Fatal(err)
	}
	st, c := s.open(t)
	mustCommit(t, st, rev(1))
	mustClose(t, st)
	if again := s.contents(t); again.Instance != c.Instance || again.Number != 1 {
		t.Errorf("the store is %v; want that which was made, at revision 1", describe(again))
	}
	if info, err := os.Stat(s.cfg.Path); err != nil || info.Mode() != 0o600 {
		t.Errorf("the file has mode %v, %v; want 0600", info.Mode(), err)
	}
	if names, _ := filepath.Glob(s.cfg.Path + ".*"); len(names) > 0 {
		t.Errorf("beside the store there are %v; want nothing", names)
	}
}
