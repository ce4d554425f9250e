package e2e

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	"github.com/podstream/podstream/test/devnode"
)

// Each unusable file in the manifest directory produces one clear message with its name, and its field if there
// is one. Other pods are not affected, and no pod is lost.
func TestBadInput(t *testing.T) {
	good := manifest("x", "main: sleep")
	cases := []struct {
		name string
		// put makes the file at the given path.
		put func(t *testing.T, path string)
		// file is the file's name; bad.yaml by default.
		file string
		// severity, field and message are the finding's; message is a part of it.
		severity podconfigv1.FindingSeverity
		field    string
		message  string
		// runs is set if the pod runs anyway.
		runs bool
	}{
		{name: "truncated YAML", put: text("apiVersion: v1\nkind: Pod\nmetadata: {name: x\n"), message: "line"},
		{name: "unknown field", put: text(strings.Replace(good, "    args:", "    colour: red\n    args:", 1)),
			severity: podconfigv1.FindingSeverity_FINDING_SEVERITY_WARNING, field: "spec.containers[0].colour", message: "", runs: true},
		{name: "a Service", put: text("apiVersion: v1\nkind: Service\nmetadata: {name: x}\n"), field: "kind", message: "Service"},
		{name: "11 MiB", put: file(bytes.Repeat([]byte("# padding\n"), 11<<20/10)), message: "10485760"},
		{name: "binary junk", put: file([]byte{0, 1, 2, 0xff, 0xfe, 'a', 0}), message: ""},
		{name: "FIFO", put: func(t *testing.T, path string) { check(t, unix.Mkfifo(path, 0o644)) }, message: "pipe"},
		{name: "dangling symlink", put: func(t *testing.T, path string) { check(t, os.Symlink("nowhere", path)) }, message: "link"},
		{name: "empty", put: file(nil), message: "empty"},
		{name: "backup", put: text(good), file: "x.yaml.bak", severity: podconfigv1.FindingSeverity_FINDING_SEVERITY_IGNORED, message: ".yaml"},
		{name: "editor's backup", put: text(good), file: "x.yaml~", severity: podconfigv1.FindingSeverity_FINDING_SEVERITY_IGNORED, message: ".yaml"},
		{name: "swap file", put: text(good), file: "x.swp", severity: podconfigv1.FindingSeverity_FINDING_SEVERITY_IGNORED, message: ".yaml"},
		{name: "the name is no DNS label", put: text(manifest("Not_A_Name", "main: sleep")), field: "metadata.name", message: ""},
		{name: "two files with one pod", put: text(manifest("good", "other: sleep")), file: "zz.yaml",
			severity: podconfigv1.FindingSeverity_FINDING_SEVERITY_CONFLICT, field: "metadata.name", message: "good.yaml"},
	}
	r := newRig(t, startNode(t, devnode.Sim))
	r.write("good.yaml", manifest("good", "main: sleep"))
	uid := r.awaitRunning("good")
	before := r.containers(uid)[0].GetId()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			name := c.file
			if name == "" {
				name = "bad.yaml"
			}
			severity := c.severity
			if severity == 0 {
				severity = podconfigv1.FindingSeverity_FINDING_SEVERITY_ERROR
			}
			path := filepath.Join(r.Manifests, name)
			c.put(t, path)
			var findings []*podconfigv1.Finding
			r.eventually("the finding shows", func() error {
				findings = r.findings(path)
				if len(findings) == 0 {
					return fmt.Errorf("no findings for %s", path)
				}
				return nil
			})
			f := findings[0]
			if len(findings) != 1 || f.GetSeverity() != severity || f.GetField() != c.field || !strings.Contains(f.GetMessage(), c.message) || f.GetMessage() == "" {
				t.Errorf("findings %v;\nwant one, %s, field %q, message with %q", findings, severity, c.field, c.message)
			}
			if c.runs {
				r.awaitRunning("x")
			}
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			r.eventually("the finding goes with the file", func() error {
				if left := r.findings(path); len(left) > 0 {
					return fmt.Errorf("%v", left)
				}
				return nil
			})
		})
	}
	if after := r.containers(uid); len(after) != 1 || after[0].GetId() != before {
		t.Errorf("the good pod's container was %s, and is now %v", before, after)
	}
}

// After a bad edit of a good manifest its pod stays, until the manifest is good again or removed.
func TestInvalidEditKeepsThePod(t *testing.T) {
	r := newRig(t, startNode(t, devnode.Sim))
	r.write("web.yaml", manifest("web", "web: sleep"))
	uid := r.awaitRunning("web")
	before := r.containers(uid)[0].GetId()
	path := filepath.Join(r.Manifests, "web.yaml")
	for _, bad := range []string{"kind: Pod\n  spec", "", manifest("web", "Not_A_Label: sleep")} {
		r.write("web.yaml", bad)
		r.eventually("the error shows, with the pod that is kept", func() error {
			for _, f := range r.findings(path) {
				if f.GetSeverity() == podconfigv1.FindingSeverity_FINDING_SEVERITY_ERROR && len(f.GetKeptPods()) == 1 && f.GetKeptPods()[0].GetUid() == uid {
					return nil
				}
			}
			return fmt.Errorf("findings %v", r.findings(path))
		})
		if after := r.containers(uid); len(after) != 1 || after[0].GetId() != before {
			t.Fatalf("after %q the container was %s, and is now %v", bad, before, after)
		}
	}
	r.write("web.yaml", manifest("web", "web: sleep"))
	r.eventually("the error is gone", func() error {
		if left := r.findings(path); len(left) > 0 {
			return fmt.Errorf("%v", left)
		}
		return nil
	})
	if after := r.containers(uid); len(after) != 1 || after[0].GetId() != before {
		t.Errorf("the container was %s, and is now %v", before, after)
	}
}

// The pod of an unusable file also stays when the daemons restart: podconfigd then doesn't have the file's
// former content, so it removes nothing until the file is repaired or removed. Other files are not affected.
func TestInvalidEditKeepsThePodAcrossRestarts(t *testing.T) {
	r := newRig(t, startNode(t, devnode.Sim))
	r.write("web.yaml", manifest("web", "web: sleep"))
	r.write("other.yaml", manifest("other", "main: print, v1"))
	web, other := r.awaitRunning("web"), r.awaitRunning("other")
	before := r.containers(web)[0].GetId()
	r.write("web.yaml", "kind: Pod\n  spec")
	r.eventually("the file is refused", func() error {
		if len(r.findings(filepath.Join(r.Manifests, "web.yaml"))) == 0 {
			return fmt.Errorf("no findings")
		}
		return nil
	})
	for _, restart := range [][]*devnode.Process{{r.Podconfigd}, {r.Podexecd}, {r.Podconfigd, r.Podexecd}} {
		for _, p := range restart {
			check(t, p.Kill())
		}
		for _, p := range restart {
			check(t, p.Start())
		}
		// The edit of another file takes effect only after podconfigd and podexecd have handled the restart.
		r.write("other.yaml", manifest("other", "main: print, "+restart[0].Name+fmt.Sprint(len(restart))))
		r.eventually("the other file's edit runs, and its former pod is gone", func() error {
			pod, _, err := r.observed("other")
			if err != nil {
				return err
			}
			if pod.GetRef().GetUid() == other || pod.GetPhase() != "Running" || len(r.containers(other)) > 0 {
				return fmt.Errorf("pod %v", pod.GetRef())
			}
			return nil
		})
		other = r.awaitRunning("other")
		if after := r.containers(web); len(after) != 1 || after[0].GetId() != before {
			t.Fatalf("the container was %s, and is now %v", before, after)
		}
	}
	r.remove("web.yaml")
	r.eventually("the pod goes with its file", func() error {
		if n := len(r.containers(web)); n > 0 {
			return fmt.Errorf("%d containers", n)
		}
		return nil
	})
}

// An image that can't be pulled and a missing command are reported with the kubelet's reasons.
func TestPodsThatCannotStart(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, node *devnode.Node) {
		r := newRig(t, node)
		r.write("good.yaml", manifest("good", "main: sleep"))
		r.write("noimage.yaml", strings.ReplaceAll(manifest("noimage", "main: sleep"), devnode.SampleImage, "missing.invalid/missing:v1"))
		r.write("nopull.yaml", strings.NewReplacer(devnode.SampleImage, "missing.invalid/missing:v1", "Never", "IfNotPresent").
			Replace(manifest("nopull", "main: sleep")))
		r.write("nocommand.yaml", strings.Replace(manifest("nocommand", "main: sleep"), "    args:", "    command: [/no-such-command]\n    args:", 1))
		for pod, reasons := range map[string][]string{
			"noimage": {"ErrImageNeverPull"}, "nopull": {"ErrImagePull", "ImagePullBackOff"}, "nocommand": {"RunContainerError", "CrashLoopBackOff"},
		} {
			r.eventually(fmt.Sprintf("pod %s waits with one of %v", pod, reasons), func() error {
				_, status, err := r.observed(pod)
				if err != nil {
					return err
				}
				if len(status.ContainerStatuses) == 0 {
					return fmt.Errorf("nothing has been observed yet")
				}
				w := status.ContainerStatuses[0].State.Waiting
				for _, reason := range reasons {
					if w != nil && w.Reason == reason && w.Message != "" {
						return nil
					}
				}
				return fmt.Errorf("container is %+v", status.ContainerStatuses[0].State)
			})
		}
		r.awaitRunning("good")
	})
}

// findings returns ListSources' findings for the file.
func (r *rig) findings(path string) []*podconfigv1.Finding {
	r.t.Helper()
	resp, err := r.Config.ListSources(r.t.Context(), &podconfigv1.ListSourcesRequest{})
	if err != nil {
		r.t.Fatal(err)
	}
	var out []*podconfigv1.Finding
	for _, s := range resp.GetSources() {
		for _, f := range s.GetFindings() {
			if f.GetOrigin() == path {
				out = append(out, f)
			}
		}
	}
	return out
}

// text returns a function that renames a file with the content into place.
func text(content string) func(*testing.T, string) { return file([]byte(content)) }

func file(content []byte) func(*testing.T, string) {
	return func(t *testing.T, path string) {
		temp := filepath.Join(filepath.Dir(path), ".temp")
		check(t, os.WriteFile(temp, content, 0o644))
		check(t, os.Rename(temp, path))
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
