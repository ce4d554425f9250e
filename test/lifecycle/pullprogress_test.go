package lifecycle

import (
	"path/filepath"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/types"

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
		name := hub.pushImage(t, repository, image)
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
