package podconfigd

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/podstream/podstream/internal/sources/oci/ocitest"
)

// recorder is a program in place of crane and of cosign. It writes down its arguments, and keeps the archive.
const recorder = `#!/usr/bin/env bash
echo "$(basename "$0") $*" >>"$RECORD"
case $1 in
append) cp "$4" "$RECORD.tgz" ;;
digest) echo sha256:d ;;
esac
`

// publishExample runs deploy/artifact/publish.sh with the recorder, and returns the commands that it ran, and the archive.
func publishExample(t *testing.T, reference string) (commands string, archive []byte) {
	t.Helper()
	dir := t.TempDir()
	record := filepath.Join(dir, "record")
	for _, name := range []string{"crane", "cosign"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(recorder), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	const example = "../../deploy/artifact/"
	cmd := exec.CommandContext(t.Context(), example+"publish.sh", example+"manifests", reference, "cosign.key")
	cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "RECORD="+record, "TMPDIR="+dir)
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("publish.sh: %v\n%s", err, output)
	}
	text, err := os.ReadFile(record)
	if err == nil {
		archive, err = os.ReadFile(record + ".tgz")
	}
	if err != nil {
		t.Fatal(err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "tmp.*")); err != nil || len(left) > 0 {
		t.Errorf("publish.sh leaves %q, %v", left, err)
	}
	return regexp.MustCompile(`(created=|-f )\S+`).ReplaceAllString(string(text), "${1}X"), archive
}

// TestArtifactExample: podconfigd with the drop-in in deploy/artifact serves the pods of the archive that publish.sh makes, once it
// is signed. The commands are those that were run with crane 0.22.1, and cosign's that of signature/testdata/cosign/make.sh.
func TestArtifactExample(t *testing.T) {
	n := newArtifactNode(t)
	commands, archive := publishExample(t, n.hub.Addr+"/site/pods:prod")
	want := strings.ReplaceAll(`crane append --oci-empty-base -f X -t REPO:prod-candidate
crane mutate --annotation org.opencontainers.image.created=X REPO:prod-candidate -t REPO:prod-candidate
crane digest REPO:prod-candidate
cosign sign --yes --key cosign.key --tlog-upload=false --use-signing-config=false -a docker-reference=REPO REPO@sha256:d
crane tag REPO@sha256:d prod
`, "REPO", n.hub.Addr+"/site/pods")
	if commands != want {
		t.Errorf("publish.sh runs\n%s\nwant\n%s", commands, want)
	}

	text, err := os.ReadFile("../../deploy/artifact/50-artifact.conf")
	if err != nil {
		t.Fatal(err)
	}
	dropIn := string(text)
	for from, to := range map[string]string{
		"registry.example/": n.hub.Addr + "/", "/etc/podstream/cosign.pub": filepath.Join(n.dir, "cosign.pub"), "interval: 1m": "interval: 5s",
	} {
		if strings.Count(dropIn, from) != 1 {
			t.Fatalf("the drop-in has no %q, or two:\n%s", from, text)
		}
		dropIn = strings.Replace(dropIn, from, to, 1)
	}
	configs := filepath.Join(n.dir, "conf.d")
	if err := os.Mkdir(configs, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(configs, "50-artifact.conf"), []byte(dropIn), 0o600); err != nil {
		t.Fatal(err)
	}
	manifest := n.hub.ManifestOf("site/pods", archive, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	digest := n.hub.PutManifest("site/pods", "prod", ocitest.ManifestType, manifest)
	n.args = []string{"--config-dir=" + configs}
	n.start()
	n.until("", "it isn't signed")
	n.hub.SignSimple(n.key, "site/pods", digest)
	n.until("oci hello-node", "")
}

var ociFlag = regexp.MustCompile("--oci-[a-z-]+[a-z]")

// TestArtifactFlagsAreDocumented: docs/artifacts.md names each of podconfigd's flags for artifacts, and no other one.
func TestArtifactFlagsAreDocumented(t *testing.T) {
	found := map[string]map[string]bool{}
	for _, file := range []string{"artifacts.md", "flags.md"} {
		text, err := os.ReadFile(filepath.Join("..", "..", "docs", file))
		if err != nil {
			t.Fatal(err)
		}
		found[file] = map[string]bool{}
		for _, flag := range ociFlag.FindAllString(string(text), -1) {
			found[file][flag] = true
		}
	}
	delete(found["artifacts.md"], "--oci-empty-base") // crane's
	for flag := range found["flags.md"] {
		if !found["artifacts.md"][flag] {
			t.Errorf("docs/artifacts.md lacks %s", flag)
		}
	}
	for flag := range found["artifacts.md"] {
		if !found["flags.md"][flag] {
			t.Errorf("docs/artifacts.md has %s, which podconfigd hasn't", flag)
		}
	}
	if len(found["flags.md"]) < 8 {
		t.Errorf("docs/flags.md has only the flags %v", found["flags.md"])
	}
}
