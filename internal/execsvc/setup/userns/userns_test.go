package userns

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/podstream/podstream/internal/kubeletdir"
)

// Each pod has its own range and keeps it, also after a restart. The range of a removed pod is free.
func TestRangesOfPods(t *testing.T) {
	cfg := Config{PodDirs: kubeletdir.Pods{Current: podsDir(t, "a", "b", "c", "d")}}
	m := newManager(t, cfg)
	has(t, m, "a", Range{65536, 65536})
	has(t, m, "b", Range{131072, 65536})
	has(t, m, "c", Range{196608, 65536})
	has(t, m, "a", Range{65536, 65536})
	remove(t, m, "b")
	m = newManager(t, cfg)
	has(t, m, "d", Range{131072, 65536})
	has(t, m, "c", Range{196608, 65536})
}

// The file has the kubelet's format.
func TestRecord(t *testing.T) {
	cfg := Config{PodDirs: kubeletdir.Pods{Current: podsDir(t, "a")}}
	has(t, newManager(t, cfg), "a", Range{65536, 65536})
	path := filepath.Join(cfg.PodDirs.Current, "a/userns")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"uidMappings":[{"hostId":65536,"containerId":0,"length":65536}],"gidMappings":[{"hostId":65536,"containerId":0,"length":65536}]}`
	if string(data) != want {
		t.Errorf("the file has %s\nwant %s", data, want)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != recordMode {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

// A pod keeps its range when the settings change, and new ranges don't overlap it.
func TestSettingsChange(t *testing.T) {
	dir := podsDir(t, "a", "b", "c", "d")
	m := newManager(t, Config{PodDirs: kubeletdir.Pods{Current: dir}, Range: Range{100000, 300000}})
	has(t, m, "a", Range{100000, 65536})
	has(t, m, "b", Range{165536, 65536})
	remove(t, m, "a")
	m = newManager(t, Config{PodDirs: kubeletdir.Pods{Current: dir}, IDsPerPod: 131072})
	has(t, m, "c", Range{231072, 131072})
	has(t, m, "b", Range{165536, 65536})
	has(t, m, "d", Range{362144, 131072})
}

// If all IDs are in use, the next pod gets none until a pod is removed.
func TestExhaustion(t *testing.T) {
	for name, r := range map[string]Range{
		"two ranges":               {65536, 3*65536 - 1},
		"at the end":               {1<<32 - 3*65536, 3 * 65536},
		"some that aren't aligned": {1<<32 - 2*65536 - 1, 2 * 65536},
	} {
		t.Run(name, func(t *testing.T) {
			m := newManager(t, Config{PodDirs: kubeletdir.Pods{Current: podsDir(t, "a", "b", "c")}, Range: r})
			has(t, m, "a", Range{r.First, 65536})
			has(t, m, "b", Range{r.First + 65536, 65536})
			if ids, err := m.Of("c"); !errors.Is(err, ErrExhausted) {
				t.Fatalf("the third pod has %+v, %v", ids, err)
			}
			remove(t, m, "a")
			has(t, m, "c", Range{r.First, 65536})
		})
	}
}

// A pod without a directory gets no range, and doesn't block others.
func TestNoDirectory(t *testing.T) {
	m := newManager(t, Config{PodDirs: kubeletdir.Pods{Current: podsDir(t, "b")}})
	if ids, err := m.Of("a"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it has %+v, %v", ids, err)
	}
	has(t, m, "b", Range{65536, 65536})
}

// While a pod's range is unknown, no other pod gets a new one. Pods with a range keep it.
func TestUnknown(t *testing.T) {
	const of = `{"uidMappings":[{"hostId":65536,"containerId":0,"length":65536}],"gidMappings":[{"hostId":65536,"containerId":0,"length":65536}]}`
	for name, text := range map[string]string{
		"what another pod has": of,
		"part of that":         strings.ReplaceAll(of, `"hostId":65536`, `"hostId":131071`),
		"damage":               of[:40],
		"nothing":              "",
	} {
		t.Run(name, func(t *testing.T) {
			cfg := Config{PodDirs: kubeletdir.Pods{Current: podsDir(t, "a", "b", "c")}}
			has(t, newManager(t, cfg), "a", Range{65536, 65536})
			path := filepath.Join(cfg.PodDirs.Current, "b/userns")
			write(t, path, text)
			m := newManager(t, cfg)
			has(t, m, "a", Range{65536, 65536})
			for _, uid := range []types.UID{"b", "c"} {
				if ids, err := m.Of(uid); err == nil || !strings.Contains(err.Error(), path) {
					t.Errorf("pod %s has %+v, %v; want an error with the file", uid, ids, err)
				}
			}
			remove(t, m, "b")
			has(t, m, "c", Range{131072, 65536})
		})
	}
}

func TestNewRejects(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	write(t, file, "")
	for want, cfg := range map[string]Config{
		"a multiple of 65536":    {IDsPerPod: 70000},
		"must be at least 65536": {Range: Range{1000, 65536}},
		"and have 32 bits":       {Range: Range{1 << 31, 1<<31 + 1}},
		"each pod needs 131072":  {Range: Range{100000, 131071}, IDsPerPod: 131072},
		"not a directory":        {PodDirs: kubeletdir.Pods{Current: file}},
	} {
		if m, err := New(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, %v; want an error with %q", cfg, m, err, want)
		}
	}
	if _, err := New(Config{PodDirs: kubeletdir.Pods{Current: filepath.Join(t.TempDir(), "none")}}); err != nil {
		t.Errorf("without the pods' directory: %v", err)
	}
}

// For any sequence of pods, restarts and settings: no two pods share an ID, and no pod's range changes.
func TestNoOverlap(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "")
		if err != nil {
			rt.Fatal(err)
		}
		restart := func() *Manager {
			cfg := Config{
				PodDirs: kubeletdir.Pods{Current: dir}, IDsPerPod: 65536 * rapid.Uint32Range(1, 3).Draw(rt, "blocks"),
				Range: Range{rapid.Uint32Range(65536, 100000).Draw(rt, "first"), 5 * 65536},
			}
			m, err := New(cfg)
			if err != nil {
				rt.Fatal(err)
			}
			return m
		}
		m, want := restart(), map[types.UID]Range{}
		uids := rapid.SampledFrom([]types.UID{"a", "b", "c", "d", "e", "f"})
		rt.Repeat(map[string]func(*rapid.T){
			"restart": func(*rapid.T) { m = restart() },
			"ask": func(rt *rapid.T) {
				uid := uids.Draw(rt, "uid")
				if err := os.MkdirAll(filepath.Join(dir, string(uid)), 0o750); err != nil {
					rt.Fatal(err)
				}
				ids, err := m.Of(uid)
				if errors.Is(err, ErrExhausted) && want[uid] == (Range{}) {
					return
				}
				if err != nil {
					rt.Fatal(err)
				}
				got := Range{ids.HostID, ids.Length}
				if want[uid] != (Range{}) && want[uid] != got {
					rt.Fatalf("pod %s had %+v and has %+v", uid, want[uid], got)
				}
				want[uid] = got
				for other, r := range want {
					if other != uid && got.overlaps(r) {
						rt.Fatalf("pod %s has %+v, and pod %s %+v", uid, got, other, r)
					}
				}
			},
			"remove": func(rt *rapid.T) {
				uid := uids.Draw(rt, "uid")
				if err := os.RemoveAll(filepath.Join(dir, string(uid))); err != nil {
					rt.Fatal(err)
				}
				m.Free(uid)
				delete(want, uid)
			},
		})
	})
}

// For any record, the result is a valid range or an error.
func FuzzRecord(f *testing.F) {
	for _, text := range []string{
		"", "null", "{}", `{"uidMappings":[]}`,
		`{"uidMappings":[{"hostId":65536,"containerId":0,"length":65536}],"gidMappings":[{"hostId":65536,"containerId":0,"length":65536}]}`,
		`{"uidMappings":[{"hostId":65536,"length":65536}],"gidMappings":[{"hostId":131072,"length":65536}]}`,
		`{"uidMappings":[{"hostId":65535,"length":65536}],"gidMappings":[{"hostId":65535,"length":65536}]}`,
		`{"uidMappings":[{"hostId":65536,"containerId":1,"length":65536}],"gidMappings":[{"hostId":65536,"containerId":1,"length":65536}]}`,
		`{"uidMappings":[{"hostId":4294967295,"length":4294967295}],"gidMappings":[{"hostId":4294967295,"length":4294967295}]}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := parseRecord(data)
		if err == nil && (r.First < first || r.Length == 0 || r.end() > 1<<32) {
			t.Errorf("%q is accepted as %+v", data, r)
		}
		if err != nil && r != (Range{}) {
			t.Errorf("%q gives %+v and %v", data, r, err)
		}
	})
}

// TestRangesOfAnEarlierVersion: a pod whose directory is in the place of an earlier version keeps its range, and no other pod gets it.
func TestRangesOfAnEarlierVersion(t *testing.T) {
	before := podsDir(t, "old")
	has(t, newManager(t, Config{PodDirs: kubeletdir.Pods{Current: before}}), "old", Range{65536, 65536})
	m := newManager(t, Config{PodDirs: kubeletdir.Pods{Current: podsDir(t, "new"), Previous: before}})
	has(t, m, "new", Range{131072, 65536})
	has(t, m, "old", Range{65536, 65536})
}
