package lifecycle

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
	"github.com/podstream/podstream/test/devnode"
)

// newImage returns the sample image with two more layers, each of 4 MiB, that no other image has. containerd receives a layer
// in pieces of 1 MiB.
func newImage(t *testing.T) v1.Image {
	t.Helper()
	const each = 4 << 20
	image, err := devnode.BuildSampleImage(filepath.Join(nodes.BinDir, "sample"))
	check(t, err)
	for range 2 {
		layer, err := random.Layer(each, types.DockerLayer)
		check(t, err)
		image, err = mutate.AppendLayers(image, layer)
		check(t, err)
	}
	return image
}

// progressOf returns the progress of the pod's only pull, or nil.
func progressOf(s *state) *podexecv1.PullProgress {
	if len(s.pulls) != 1 {
		return nil
	}
	return s.pulls[0].GetProgress()
}

// A watcher sees how far a pull is: the total once the manifest is there, and the bytes of layers that arrive.
func TestPullProgress(t *testing.T) {
	on(t, containerds, func(t *testing.T, b *bench) {
		hub, repository := sharedHub(t), "halved/"+b.podName(t)
		image := newImage(t)
		layers, err := image.Layers()
		check(t, err)
		sizes, total := make([]int64, len(layers)), int64(0)
		for i, layer := range layers {
			sizes[i], err = layer.Size()
			check(t, err)
			total += sizes[i]
		}
		// containerd 2 pulls a manifest list, and 1.7 a single manifest.
		push := hub.pushIndex
		if b.runtime == devnode.Containerd17 {
			push = hub.pushImage
		}
		name := push(t, repository, image)
		open := hub.gate(repository)
		t.Cleanup(open)
		p := b.run(t, `
containers:
- {name: main, image: "`+name+`", args: [sleep]}`)
		s := p.await("a quarter of the new layers has arrived", func(s *state) bool {
			now := progressOf(s)
			return now.GetDoneBytes() >= sizes[0]+sizes[1]/4+sizes[2]/4
		})
		if now := progressOf(&s); now.GetTotalBytes() != total || now.GetTotalLayers() != 3 || now.GetDoneLayers() != 1 || now.GetDoneBytes() >= total {
			t.Errorf("the progress is %v; want %d bytes of three layers, one of which is complete", now, total)
		}
		open()
		p.awaitReady()
		if s := p.now(); len(s.pulls) != 0 {
			t.Errorf("the pulls are %v after the pull", s.pulls)
		}
		p.never("more than the whole has arrived", func(s *state) bool {
			return progressOf(s).GetDoneBytes() > total || progressOf(s).GetDoneLayers() > 3
		})
		p.awaitEvent("Pulled", "Successfully pulled image", name)
	})
}

// A registry's manifest may state any sizes, and any number of layers. The pull fails; podexecd goes on, and what it shows is
// within what was stated.
func TestPullProgressOfLies(t *testing.T) {
	on(t, latestContainerd, func(t *testing.T, b *bench) {
		hub := sharedHub(t)
		image := newImage(t)
		manifest, err := image.Manifest()
		check(t, err)
		sizes := manifest.DeepCopy()
		sizes.Layers[1].Size, sizes.Layers[2].Size = 1<<62, 1<<62
		small := manifest.DeepCopy()
		small.Layers[1].Size = 10
		many := manifest.DeepCopy()
		for i := range 10_000 {
			many.Layers = append(many.Layers, v1.Descriptor{
				MediaType: types.DockerLayer, Size: 1 << 60, Digest: v1.Hash{Algorithm: "sha256", Hex: fmt.Sprintf("%064x", i)},
			})
		}
		for name, lie := range map[string]*v1.Manifest{"sizes": sizes, "small": small, "many": many} {
			repository := "halved/" + b.podName(t) + "-" + name
			hub.pushBlobs(t, repository, image)
			content, err := json.Marshal(lie)
			check(t, err)
			open := hub.gate(repository)
			t.Cleanup(open)
			r := b.pullImage(t, hub.pushManifest(t, repository, string(lie.MediaType), content))
			if name == "sizes" {
				r.await("the total is the largest number", func(m *podexecv1.PullImageResponse) bool {
					p := m.GetPull().GetProgress()
					if p.GetDoneBytes() < 0 || p.GetDoneBytes() > p.GetTotalBytes() || p.GetDoneLayers() > p.GetTotalLayers() {
						t.Errorf("the progress is %v", p)
					}
					return p.GetTotalBytes() == math.MaxInt64
				})
			}
			open()
			for err == nil {
				var m *podexecv1.PullImageResponse
				if m, err = r.stream.Recv(); name == "many" && m.GetPull().GetProgress() != nil {
					t.Errorf("%s: %v", name, m)
				}
			}
			if errors.Is(err, io.EOF) || status.Code(err) == codes.DeadlineExceeded {
				t.Errorf("%s: the pull ends with %v", name, err)
			}
		}
		if _, err := b.Exec.GetVersion(t.Context(), &podexecv1.GetVersionRequest{}); err != nil {
			t.Error(err)
		}
	})
}
