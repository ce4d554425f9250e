package volume

import (
	"context"
	"errors"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/mount-utils"

	"github.com/podstream/podstream/internal/execsvc/pod/objects"
	"github.com/podstream/podstream/internal/execsvc/setup/volume/atomicdir"
	"github.com/podstream/podstream/internal/execsvc/setup/volume/payload"
)

// refreshTimeout is how long an API server that doesn't answer delays a pod whose volume has a token already.
const refreshTimeout = 5 * time.Second

// payloadVolume is the plugin for configMap, secret, downwardAPI and projected volumes. Changed files are replaced
// all at once; a subPath mount, and files that a program holds open, stay as they are.
type payloadVolume struct {
	plain
	name    string
	mounter mount.Interface
	takes   func(*v1.Volume) bool
	files   func(context.Context, Volume) (map[string]payload.File, error)
	// inMemory is set for content that must not be on the node's disk.
	inMemory bool
}

func payloadPlugins(cfg Config) []Plugin {
	mounter := cfg.Mounter
	return []Plugin{
		payloadVolume{
			name: "kubernetes.io/configmap", mounter: mounter,
			takes: func(spec *v1.Volume) bool { return spec.ConfigMap != nil },
			files: func(_ context.Context, v Volume) (map[string]payload.File, error) {
				return payload.ConfigMap(v.Spec.ConfigMap, v.Objects)
			},
		},
		payloadVolume{
			name: "kubernetes.io/secret", mounter: mounter, inMemory: true,
			takes: func(spec *v1.Volume) bool { return spec.Secret != nil },
			files: func(_ context.Context, v Volume) (map[string]payload.File, error) {
				return payload.Secret(v.Spec.Secret, v.Objects)
			},
		},
		payloadVolume{
			name: "kubernetes.io/downward-api", mounter: mounter,
			takes: func(spec *v1.Volume) bool { return spec.DownwardAPI != nil },
			files: func(_ context.Context, v Volume) (map[string]payload.File, error) {
				return payload.DownwardAPI(v.Spec.DownwardAPI, v.Pod, v.Facts)
			},
		},
		payloadVolume{
			name: "kubernetes.io/projected", mounter: mounter, inMemory: true,
			takes: func(spec *v1.Volume) bool { return spec.Projected != nil },
			files: func(ctx context.Context, v Volume) (map[string]payload.File, error) {
				if atomicdir.Written(v.Dir) {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, refreshTimeout)
					defer cancel()
				}
				in := payload.Input{Pod: v.Pod, Objects: v.Objects, Facts: v.Facts, Tokens: cfg.Tokens, Bundles: cfg.Bundles}
				return payload.Projected(ctx, v.Spec.Projected, in)
			},
		},
	}
}

// Name is part of Plugin.
func (p payloadVolume) Name() string { return p.name }

// Takes is part of Plugin.
func (p payloadVolume) Takes(spec *v1.Volume) bool { return p.takes(spec) }

// Source is part of Plugin.
func (p payloadVolume) Source(v Volume) Source { return Source{Path: v.Dir, ReadOnly: true, Own: true} }

// SetUp is part of Plugin. If new files aren't available or can't be written, the volume keeps its current ones, and
// the pod continues with them: while podconfigd or the API server is away, however old a token has become, and as
// with the kubelet when an object was removed or a disk is full.
func (p payloadVolume) SetUp(ctx context.Context, v Volume) error {
	files, err := p.files(ctx, v)
	if err != nil {
		return p.keep(v, err)
	}
	if p.inMemory {
		err = mountTmpfs(p.mounter, v.Dir, accessOf(v, tmpfsMode), memoryLimit(v))
	} else {
		err = makeDir(ctx, v.Dir, accessOf(v, emptyDirMode))
	}
	if err != nil {
		return err
	}
	if _, err := atomicdir.Write(v.Dir, files, v.fsGroup()); err != nil {
		return p.keep(v, err)
	}
	return makeMountPoints(v)
}

// keep returns nil or an OutdatedError if the volume has complete files already; why is the reason why it has no new
// ones.
func (payloadVolume) keep(v Volume, why error) error {
	written, err := atomicdir.Finish(v.Dir)
	switch {
	case err != nil:
		return errors.Join(why, err)
	case !written:
		return why
	case errors.Is(why, objects.ErrUnknown):
		return nil // it arrives by a stream of its own, usually in a moment
	default:
		return &OutdatedError{why}
	}
}
