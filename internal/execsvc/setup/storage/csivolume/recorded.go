package csivolume

import (
	"encoding/json"
	"path/filepath"

	"github.com/podstream/podstream/internal/execsvc/setup/storage/record"
)

// StagedPaths returns where a recorded volume may be mounted for all pods, relative to the directory of plugins.
func StagedPaths(v *record.Volume) []string {
	var paths []string
	if at, err := staged("", v.Key); err == nil {
		paths = append(paths, at.name)
	}
	var names []string
	var args stageArgs
	if err := json.Unmarshal([]byte(v.Stage.Args), &args); err == nil && checkName(args.Device) == nil {
		names = append(names, args.Device)
	}
	for i := range v.Publications {
		if p := &v.Publications[i]; p.Device && checkName(p.Name) == nil {
			names = append(names, p.Name)
		}
	}
	for _, name := range names {
		for _, dir := range []string{"staging", "publish"} {
			paths = append(paths, filepath.Join(PluginName, volumeDevices, dir, name))
		}
	}
	return paths
}
