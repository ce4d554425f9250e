package e2e

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	containerregistry "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/podstream/podstream/test/devnode"
	shared "github.com/podstream/podstream/test/rig"
)

// documentedImage is the image of the pods that TestDocumentedCommands uses: with a shell, tar, and files at which the commands of
// docs/podctl.md aim.
const documentedImage = "localhost/podstream-documented:dev"

// documentedPodctl runs podctl for a rig, as a user whose working directory has the files that the commands name.
type documentedPodctl struct {
	t   *testing.T
	dir string
	rig *rig
	// web and hub serve the manifest of a URL and the image of a pull. Each is part of a command in place of a public server.
	web, hub *httptest.Server
	// used has the keys of documentedResults that a command began with.
	used map[string]bool
}

// newDocumentedPodctl writes the files, and imports the image.
func newDocumentedPodctl(t *testing.T, r *rig) *documentedPodctl {
	t.Helper()
	p := &documentedPodctl{t: t, dir: t.TempDir(), rig: r, used: map[string]bool{}}
	p.web = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, webPod("third")) }))
	t.Cleanup(p.web.Close)
	p.hub = httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(p.hub.Close)

	sample := filepath.Join(nodes.BinDir, "sample")
	unused, err := devnode.BuildSampleImage(sample, "serve")
	check(t, err)
	pulled, err := name.ParseReference(p.nginx())
	check(t, err)
	check(t, remote.Write(pulled, unused, remote.WithContext(t.Context())))
	image, err := devnode.BuildSampleImage(sample)
	check(t, err)
	image, err = devnode.WithTools(t.Context(), image)
	check(t, err)
	image, err = devnode.WithFiles(image, map[string]devnode.File{
		"bin/date":     {Content: []byte("#!/bin/sh\necho today\n"), Mode: 0o755},
		"bin/psql":     {Content: []byte("#!/bin/sh\nexec cat\n"), Mode: 0o755},
		"etc/app.conf": {Content: []byte("color = blue\n"), Mode: 0o644},
		"srv/":         {Mode: 0o755},
	})
	check(t, err)
	check(t, r.Node.ImportImages(t.Context(), map[string]containerregistry.Image{documentedImage: image}))

	config := fmt.Sprintf("apiVersion: podstream.io/v1alpha1\nkind: PodctlConfig\ncontexts:\n- {name: node-2, podconfigEndpoint: %s, podexecEndpoint: %s}\n",
		r.ConfigSocket(), r.ExecSocket())
	for name, text := range map[string]string{
		"podctl.yaml":   config,
		"ca.pem":        string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.web.Certificate().Raw})),
		"editor":        "#!/bin/sh\nexec sed -i s/second/edited/ \"$1\"\n",
		"web.yaml":      webPod("first"),
		"store.yaml":    storePod,
		"data/file":     "copied\n",
		"shop/old.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: old, namespace: shop}\n",
		"shop/cart.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: shop}\ndata: {a: b}\n---\n" +
			documentedPod{name: "cart", namespace: "shop", container: "cart", args: "sleep", more: "envFrom: [{configMapRef: {name: settings}}]"}.manifest(),
	} {
		check(t, os.MkdirAll(filepath.Dir(p.path(name)), 0o755))
		check(t, os.WriteFile(p.path(name), []byte(text), 0o700))
	}
	return p
}

// applyPods applies the pods web, store and cart, and makes the files differ from what is applied.
func (p *documentedPodctl) applyPods() {
	p.t.Helper()
	p.t.Cleanup(func() {
		p.run([]string{"delete", "--ignore-not-found", "-f", "web.yaml,store.yaml,shop/"}, documentedResult{})
	})
	for _, words := range [][]string{{"apply", "-f", "web.yaml,store.yaml"}, {"apply", "--set", "shop", "-f", "shop/"}} {
		p.rig.eventually("podctl "+strings.Join(words, " "), func() error {
			if code, _, stderr := p.run(words, documentedResult{}); code != 0 {
				return errors.New(stderr)
			}
			return nil
		})
	}
	check(p.t, os.WriteFile(p.path("web.yaml"), []byte(webPod("second")), 0o600))
	check(p.t, os.Remove(p.path("shop/old.yaml")))
}

// documentedPod is a pod with one container. The empty namespace is the default one.
type documentedPod struct{ name, namespace, container, args, more string }

// manifest returns the pod's manifest. Its label app has its name.
func (d documentedPod) manifest() string {
	return fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: %q, labels: {app: %[1]s}}
spec:
  terminationGracePeriodSeconds: 2
  containers:
  - name: %[3]s
    image: %[5]s
    imagePullPolicy: Never
    args: [%[4]s]
    %[6]s
`, d.name, d.namespace, d.container, d.args, documentedImage, d.more)
}

// webPod returns a version of the manifest of pod web. It prints hello, and then what it reads.
func webPod(version string) string {
	return documentedPod{
		name: "web", container: "app", args: `seq, append, /dev/stdout, hello, ";", stdin`,
		more: fmt.Sprintf("stdin: true\n    env: [{name: VERSION, value: %s}]\n  - {name: side, image: %q, imagePullPolicy: Never, args: [sleep]}",
			version, devnode.SampleImage),
	}.manifest()
}

// storePod is a pod with a claim.
var storePod = "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data}\n" +
	"spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}\n---\n" + documentedPod{
	name: "store", container: "main", args: "sleep",
	more: "volumeMounts: [{name: data, mountPath: /srv}]\n  volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]",
}.manifest()

func (p *documentedPodctl) path(name string) string { return filepath.Join(p.dir, name) }

// nginx returns the name of the image that is pulled.
func (p *documentedPodctl) nginx() string {
	return strings.TrimPrefix(p.hub.URL, "http://") + "/library/nginx:1.27"
}

// runnable returns the words with this machine's servers, and with a free port.
func (p *documentedPodctl) runnable(words []string) []string {
	words = slices.Clone(words)
	for i, word := range words {
		switch {
		case word == "docker.io/library/nginx:1.27":
			words[i] = p.nginx()
		case strings.HasPrefix(word, "https://example.com/"):
			words[i] = strings.Replace(word, "https://example.com", p.web.URL, 1)
		case word == "8080:80":
			words[i] = ":80"
		}
	}
	return words
}

// run runs podctl and returns its exit code and what it printed.
func (p *documentedPodctl) run(words []string, as documentedResult) (code int, stdout, stderr string) {
	p.t.Helper()
	// The context of the test has ended when its cleanups run.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.t.Context()), shared.Patience(patience))
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(nodes.BinDir, "podctl"), words...)
	cmd.Dir = p.dir
	cmd.Env = []string{
		"HOME=" + p.dir, "PODCTL_CONFIG=" + p.path("podctl.yaml"), "EDITOR=" + p.path("editor"), "SSL_CERT_FILE=" + p.path("ca.pem"),
		"PODSTREAM_PODCONFIG_ENDPOINT=unix://" + p.rig.ConfigSocket(), "PODSTREAM_PODEXEC_ENDPOINT=unix://" + p.rig.ExecSocket(),
		"PATH=" + os.Getenv("PATH"),
	}
	cmd.Stdin = strings.NewReader(as.stdin)
	out, errs := &printed{}, &printed{}
	cmd.Stdout, cmd.Stderr = out, errs
	var err error
	if as.until == "" {
		err = cmd.Run()
	} else {
		err = runUntil(cmd, out, as)
	}
	if err != nil && !errors.As(err, new(*exec.ExitError)) {
		p.t.Fatalf("podctl %s: %v", strings.Join(words, " "), err)
	}
	if ctx.Err() != nil {
		p.t.Errorf("podctl %s didn't end", strings.Join(words, " "))
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// runUntil runs a command that goes on, and ends it as by Ctrl-C once it has printed a text. Until then it types the standard input
// again and again: a runtime passes on input a moment before it passes on output.
func runUntil(cmd *exec.Cmd, out *printed, as documentedResult) error {
	cmd.Stdin = nil
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	err = shared.Poll(shared.Patience(patience), func() error {
		if len(ended) > 0 || strings.Contains(out.String(), as.until) {
			return nil
		}
		_, err := io.WriteString(stdin, as.stdin)
		return errors.Join(errors.New("it hasn't printed"), err)
	})
	if err != nil {
		return errors.Join(fmt.Errorf("%w; output:\n%s", err, out), cmd.Process.Kill(), <-ended)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return <-ended
}

// printed is output that can be read while it is written.
type printed struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (p *printed) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.Write(text)
}

func (p *printed) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.String()
}
