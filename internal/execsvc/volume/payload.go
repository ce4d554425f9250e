package volume

import (
	"context"
	"errors"

	v1 "k8s.io/api/core/v1"
	"k8s.io/mount-utils"

	"github.com/podstream/podstream/internal/execsvc/objects"
	"github.com/podstream/podstream/internal/execsvc/volume/atomicdir"
	"github.com/podstream/podstream/internal/execsvc/volume/payload"
)

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

func payloadPlugins(mounter mount.Interface, tokens payload.Tokens) []Plugin {
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
				in := payload.Input{Pod: v.Pod, Objects: v.Objects, Facts: v.Facts, Tokens: tokens}
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
func (p payloadVolume) Source(v Volume) Source { return Source{Path: v.Dir, ReadOnly: true} }

// SetUp is part of Plugin. What can't be had leaves the volume with the files that it has; with those a pod lives on while podconfigd, which
// would know of newer ones, is away.
func (p payloadVolume) SetUp(ctx context.Context, v Volume) error {
	files, err := p.files(ctx, v)
	if errors.Is(err, objects.ErrUnknown) && atomicdir.Written(v.Dir) {
		return nil
	}
	if err != nil {
		return err
	}
	if p.inMemory {
		err = mountTmpfs(p.mounter, v.Dir, accessOf(v), memoryLimit(v))
	} else {
		err = makeDir(ctx, v.Dir, accessOf(v))
	}
	if err != nil {
		return err
	}
	if _, err := atomicdir.Write(v.Dir, files, v.fsGroup()); err != nil {
		return err
	}
	return makeMountPoints(v)
}
