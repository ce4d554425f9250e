package usage

import (
	"context"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/podstream/podstream/test/devnode"
)

// The images of the pods.
const (
	// sampleImage is test/sample. nextImage is a later version of it, with another value in its environment.
	sampleImage = devnode.SampleImage
	nextImage   = "localhost/podstream-sample:next"
	// toolsImage has devnode.WithTools, besides /sample.
	toolsImage = "localhost/podstream-tools:dev"
)

// importImages builds the images that devnode doesn't have.
func importImages(ctx context.Context, machine *devnode.Node, sample string) error {
	image, err := devnode.BuildSampleImage(sample)
	if err != nil {
		return err
	}
	next, err := withEnv(image, "SAMPLE_VERSION=next")
	if err != nil {
		return err
	}
	with, err := devnode.WithTools(ctx, image)
	if err != nil {
		return err
	}
	return machine.ImportImages(ctx, map[string]v1.Image{nextImage: next, toolsImage: with})
}

func withEnv(image v1.Image, env ...string) (v1.Image, error) {
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.Config.Env = env
	return mutate.ConfigFile(image, config)
}
