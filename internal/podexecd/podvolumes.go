package podexecd

import (
	"context"
	"errors"

	"github.com/podstream/podstream/internal/execsvc/setup/storage"
	"github.com/podstream/podstream/internal/execsvc/setup/volume"
)

var _ volume.Located = podVolumes{}

// podVolumes are the persistent volumes of pods as the volume manager has them. A pod that waits for a volume which another
// pod uses is woken when one is gone.
type podVolumes struct {
	*storage.Storage
	waiting *waitingPods
}

// SetUp is part of volume.Plugin.
func (p podVolumes) SetUp(ctx context.Context, v volume.Volume) error {
	err := p.Storage.SetUp(ctx, v)
	if _, used := errors.AsType[*storage.InUseError](err); !used {
		return err
	}
	p.waiting.refuse(v.UID)
	// The other pod may have gone between the failure and now, when nothing would wake this one.
	return p.Storage.SetUp(ctx, v)
}
