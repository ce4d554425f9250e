package volume

import (
	"context"
	"errors"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/mount-utils"

	"github.com/podstream/podstream/internal/execsvc/objects"
	"github.com/podstream/podstream/internal/execsvc/volume/atomicdir"
	"github.com/podstream/podstream/internal/execsvc/volume/payload"
)

// patience is how long an API server that doesn't answer holds up what runs in a pod and has a token already.
const patience = 5 * time.Second

// payloadVolume are the kinds of volumes whose files come from elsewhere: configMap, secret, downwardAPI and projected. They are
// written anew, all at once, when they change; a mount with a subPath, and what a program holds open, stay as they were.
type payloadVolume struct {
	plain
	name    string
	mounter mount.Interface
	takes   func(*v1.Volume) bool
	files   func(context.Context, Volume) (map[string]payload.File, error)
	// inMemory is set for what must not come to the node's disk.
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
					ctx, cancel = context.WithTimeout(ctx, patience)
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

// SetUp is part of Plugin. If the files can't be had or written now, the volume keeps those that it has, and what runs in the pod goes on
// with them: while podconfigd or the API server is away, which would know of newer ones, however old a token has become, and as with the kubelet
// when an object was removed or a disk is full.
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

// keep sees whether the volume is good with the files that it has, as others can't come into it, for that reason.
func (payloadVolume) keep(v Volume, why error) error {
	written, err := atomicdir.Finish(v.Dir)
	switch {
	case err != nil:
		return errors.Join(why, err)
	case !written:
		return why
	case errors.Is(why, objects.ErrUnknown):
		return nil // it comes by a stream of its own, mostly in a moment
	default:
		return &OutdatedError{why}
	}
}
