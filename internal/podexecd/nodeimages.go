package podexecd

import (
	"context"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/execsvc/cri/image"
	"github.com/podstream/podstream/internal/execsvc/reclaim/imagegc"
)

// nodeImages are the node's images, for podexec.v1.PodExecService.
type nodeImages struct {
	*imagegc.Collector
	puller *image.Puller
	c      *connection
}

// List is part of podexecapi.Images.
func (n nodeImages) List(ctx context.Context) ([]*runtimeapi.Image, error) {
	return n.c.images.ListImages(ctx, nil)
}

// Request is part of podexecapi.Images.
func (n nodeImages) Request(name string) (*image.Request, error) { return n.puller.Request(name) }
