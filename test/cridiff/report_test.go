package cridiff

import (
	"reflect"
	"strings"
	"testing"

	"github.com/podstream/podstream/test/inside"
)

// reportOf returns what a process finds in a pod that an agent started at some time.
func reportOf(veth, message, version, id string) *inside.Report {
	const ip = "10.0.0.2"
	volume := "/vol/..2026_11_23_14_10_01." + version
	return &inside.Report{
		Namespaces: map[string]string{"pid": "pid:[1]", "net": "net:[" + id + "]"},
		Processes:  map[int]string{1: "pause", len(id): "sample", 99: "runc:[2:INIT]"},
		Interfaces: map[string][]string{"eth0": {ip + "/24", "fe80::" + id + "/64"}, veth: {"10.0.0.1/32"}},
		Mounts: []inside.Mount{
			{Point: "/", Type: "overlay", Super: []string{"rw", "upperdir=/snapshots/" + id + "/fs"}},
			{Point: "/end", Root: "/root/pods/inside-a/containers/main/" + message, Type: "ext4", Super: []string{"rw", "discard"}},
		},
		Cgroup: map[string]string{"memory": "/pod/" + strings.Repeat(id[:1], 64)},
		Files: map[string]inside.File{
			"/etc/hosts":  {Kind: "file", Size: int64(len(ip)), Content: ip},
			"/vol/..data": {Kind: "link", Size: int64(len(volume)), Link: volume},
			volume:        {Kind: "dir", Mode: "0755", Size: int64(100 * len(version))},
		},
	}
}

// TestPlain: of a report there remains nothing that is another thing each time but addresses, which a tracer replaces.
func TestPlain(t *testing.T) {
	plainOf := func(r *inside.Report) map[string]any {
		tree, err := plain(r, "main", map[string]string{"pid:[1]": "of sidecar"})
		if err != nil {
			t.Fatal(err)
		}
		return tree
	}
	want := plainOf(reportOf("veth0123abcd", "bce1b60a", "123456789", "11"))
	if got := plainOf(reportOf("vethffffffff", "00000000", "12345", "2222")); !reflect.DeepEqual(got, want) {
		t.Errorf("the same pod again: %v\nwant %v", got, want)
	}
	for what, change := range map[string]func(*inside.Report){
		"another file":      func(r *inside.Report) { r.Files["/etc/hosts"] = inside.File{Kind: "file", Size: 3, Content: "::1"} },
		"another mode":      func(r *inside.Report) { r.Files["/vol"] = inside.File{Kind: "dir", Mode: "0700"} },
		"another option":    func(r *inside.Report) { r.Mounts[1].Super[0] = "ro" },
		"another directory": func(r *inside.Report) { r.Mounts[1].Root = "/root/pods/inside-a/volumes/x" },
		"another interface": func(r *inside.Report) { r.Interfaces["eth1"] = nil },
		"another address":   func(r *inside.Report) { r.Interfaces["eth0"][0] = "10.0.0.3/24" },
		"a shared network":  func(r *inside.Report) { r.Namespaces["net"] = "pid:[1]" },
		"another process":   func(r *inside.Report) { r.Processes[7] = "sh" },
	} {
		r := reportOf("veth0123abcd", "bce1b60a", "123456789", "11")
		change(r)
		if reflect.DeepEqual(plainOf(r), want) {
			t.Errorf("%s: nothing of it remains", what)
		}
	}
}

func TestFirstLine(t *testing.T) {
	for log, want := range map[string]string{
		"":                                    "",
		"2026-11-23T14:10:01Z stdout F a":     "",
		"2026-11-23T14:10:01Z stdout F a b\n": "a b",
		"2026-11-23T14:10:01Z stdout P a\n2026-11-23T14:10:01Z stdout F b\nx y z c": "ab",
		"2026-11-23T14:10:01Z stdout P a\n":                                         "",
	} {
		if got, ok := firstLine(log); ok != (want != "") || ok && got != want {
			t.Errorf("first line of %q: %q, %v; want %q", log, got, ok, want)
		}
	}
}
