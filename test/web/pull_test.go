package web

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/podstream/podstream/test/devnode"
	"github.com/podstream/podstream/test/rig"
)

const (
	megabyte = 1_000_000
	// largeLayers layers of largeLayer bytes are 500 MB.
	largeLayers, largeLayer = 5, 100 * megabyte
	// unwritten bounds the bytes that the registry has sent and containerd hasn't stored: it writes pieces of 1 MiB, of three
	// layers at once.
	unwritten = 8 * megabyte
)

// largeImage returns the sample image with 500 MB more, which can't be compressed.
func largeImage(t *testing.T, binary string) v1.Image {
	t.Helper()
	image := rig.Get(devnode.BuildSampleImage(binary))(t)
	random := rand.NewChaCha8([32]byte{})
	for i := range largeLayers {
		var archive bytes.Buffer
		archive.Grow(largeLayer + 4096)
		w := tar.NewWriter(&archive)
		rig.Must(t, w.WriteHeader(&tar.Header{Name: fmt.Sprint("large", i), Mode: 0o644, Size: largeLayer, Typeflag: tar.TypeReg}))
		rig.Get(io.CopyN(w, random, largeLayer))(t)
		rig.Must(t, w.Close())
		image = rig.Get(mutate.AppendLayers(image, static.NewLayer(archive.Bytes(), types.DockerUncompressedLayer)))(t)
	}
	return image
}

// buildSample builds the sample program. It has symbols, which that of the node's image lacks: so the node has none of its
// layers.
func buildSample(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "sample")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", path, "github.com/podstream/podstream/test/sample")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the sample program: %v\n%s", err, output)
	}
	return path
}

// background is a podctl command that goes on. Its output is in a file.
type background struct {
	cmd  *exec.Cmd
	path string
}

func runInBackground(t *testing.T, r *rig.Rig, args ...string) *background {
	t.Helper()
	p := &background{cmd: podctl(r, args...), path: filepath.Join(t.TempDir(), "output")}
	file := rig.Get(os.Create(p.path))(t)
	defer file.Close()
	p.cmd.Stdout, p.cmd.Stderr = file, file
	rig.Must(t, p.cmd.Start())
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	})
	return p
}

func (p *background) output(t *testing.T) string {
	t.Helper()
	return string(rig.Get(os.ReadFile(p.path))(t))
}

func podctl(r *rig.Rig, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(nodes.BinDir, "podctl"), args...)
	cmd.Env = append(os.Environ(), "PODSTREAM_PODCONFIG_ENDPOINT=unix://"+r.ConfigSocket(), "PODSTREAM_PODEXEC_ENDPOINT=unix://"+r.ExecSocket())
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// numberIn returns the last number that a pattern finds, or -1.
func numberIn(text string, pattern *regexp.Regexp) int64 {
	found := pattern.FindAllStringSubmatch(text, -1)
	if found == nil {
		return -1
	}
	number, err := strconv.ParseFloat(found[len(found)-1][1], 64)
	if err != nil {
		return -1
	}
	return int64(number)
}

var (
	pullingPercent = regexp.MustCompile(`Pulling (\d+)%`)
	pulledBytes    = regexp.MustCompile(`(\d+(?:\.\d+)?)MB of 5\d\dMB, \d of 6 layers`)
)

// While an image of 500 MB is pulled, podctl's watch, its description, its own pull and the page show the bytes as they arrive.
func TestLargePull(t *testing.T) {
	long(t)
	node := rig.Need(t, func() (*devnode.Node, error) { return nodes.Node(devnode.Containerd2) })
	r := newRigOn(t, node, "wl", nil)
	registry := startSlowRegistry(t, largeImage(t, buildSample(t)))
	watch := runInBackground(t, r, "pods", "-w")
	b := newTab(t, startSite(t, r.ConfigSocket(), r.ExecSocket()).address)
	rig.Must(t, r.Write("large.yaml", strings.Replace(manifest("large", container("main", "serve")), fmt.Sprintf("%q", devnode.SampleImage), fmt.Sprintf("%q", registry.name), 1)))
	b.click("the pod", row("Pods", "large-wl"))
	b.has("Why it waits")
	pull := runInBackground(t, r, "images", "pull", registry.name)

	const bar = `document.querySelector('progress[aria-label=Pulled]')`
	onPage := int64(-1)
	for _, percent := range []int64{5, 30, 55, 80, 95} {
		allowed := registry.total * percent / 100
		registry.allow(allowed)
		least := allowed - unwritten
		within := func(what string, value, unit int64) error {
			if value*unit < least-unit || value*unit > allowed+unit {
				return fmt.Errorf("%s shows %d; want %d to %d", what, value, least/unit, allowed/unit)
			}
			return nil
		}
		var watched, pulled, described int64
		rig.Must(t, rig.Poll(patience, func() error {
			watched = numberIn(watch.output(t), pullingPercent)
			return within("podctl pods -w", watched, registry.total/100)
		}))
		rig.Must(t, rig.Poll(patience, func() error {
			pulled = numberIn(pull.output(t), pulledBytes)
			return within("podctl images pull", pulled, megabyte)
		}))
		rig.Must(t, rig.Poll(patience, func() error {
			output, err := podctl(r, "describe", "large").CombinedOutput()
			if err != nil {
				return fmt.Errorf("podctl describe: %w\n%s", err, output)
			}
			described = numberIn(string(output), pulledBytes)
			return within("podctl describe", described, megabyte)
		}))
		b.wait(fmt.Sprintf("the page shows %d%%", percent), fmt.Sprintf("%s?.value >= %d", bar, least))
		value, total := eval[int64](b, bar+".value"), eval[int64](b, bar+".max")
		if value > allowed || value <= onPage || total != registry.total {
			t.Errorf("the page shows %d of %d bytes, after %d; the registry has sent %d of %d", value, total, onPage, allowed, registry.total)
		}
		onPage = value
		t.Logf("the registry has sent %d MB: pods -w shows %d%%, describe %d MB, images pull %d MB, the page %d bytes: %s", allowed/megabyte,
			watched, described, pulled, value, eval[string](b, bar+".closest('li').innerText"))
	}
	b.axe("a pull")

	registry.allow(math.MaxInt64)
	b.wait("the pull's bar goes", "!"+bar)
	b.has("It doesn't: its containers run, and are ready.")
	rig.Must(t, pull.cmd.Wait())
	if output := pull.output(t); !strings.Contains(output, "sha256:") {
		t.Errorf("podctl images pull printed no ID:\n%s", output)
	}
	rig.Must(t, rig.Poll(patience, func() error {
		if output, err := podctl(r, "events", "large").CombinedOutput(); err != nil || !strings.Contains(string(output), "Successfully pulled image") {
			return errors.Join(err, fmt.Errorf("podctl events has no pull:\n%s", output))
		}
		return nil
	}))
	t.Logf("podctl pods -w printed\n%spodctl images pull printed\n%s", watch.output(t), pull.output(t))
}
