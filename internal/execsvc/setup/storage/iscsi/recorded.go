package iscsi

import "github.com/podstream/podstream/internal/execsvc/setup/storage/record"

// StagedPath returns where a recorded volume may be mounted for all pods, relative to the directory of plugins. Empty: nowhere.
func StagedPath(v *record.Volume) string {
	var args stageArgs
	if v.Stage.Args == "" || decode(v.Stage.Args, &args) != nil {
		return ""
	}
	_, name := args.staged()
	return name
}
