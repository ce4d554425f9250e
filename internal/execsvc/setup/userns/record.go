package userns

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/google/renameio/v2"
)

// recordFile is the name of the file in a pod's directory, recordMode its mode.
const (
	recordFile = "userns"
	recordMode = 0o644
)

// record is the file's content, in the kubelet's format.
type record struct {
	UIDMappings []mapping `json:"uidMappings"`
	GIDMappings []mapping `json:"gidMappings"`
}

type mapping struct {
	HostID      uint32 `json:"hostId"`
	ContainerID uint32 `json:"containerId"`
	Length      uint32 `json:"length"`
}

var errRecord = errors.New("it must have one range, the same for users and groups")

// readRecord returns the range in the file. The error is fs.ErrNotExist if there is no file.
func readRecord(path string) (Range, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return Range{}, err
	}
	return parseRecord(data)
}

func parseRecord(data []byte) (Range, error) {
	var rec record
	if err := json.Unmarshal(data, &rec); err != nil {
		return Range{}, fmt.Errorf("read as JSON: %w", err)
	}
	if len(rec.UIDMappings) != 1 || len(rec.GIDMappings) != 1 || rec.UIDMappings[0] != rec.GIDMappings[0] {
		return Range{}, errRecord
	}
	ids := rec.UIDMappings[0]
	r := Range{First: ids.HostID, Length: ids.Length}
	if ids.ContainerID != 0 || r.Length == 0 || r.First < first || r.end() > 1<<32 {
		return Range{}, errRecord
	}
	return r, nil
}

// writeRecord writes the file atomically.
func writeRecord(path string, r Range) error {
	ids := []mapping{{HostID: r.First, Length: r.Length}}
	data, err := json.Marshal(record{UIDMappings: ids, GIDMappings: ids})
	if err != nil {
		return err
	}
	return renameio.WriteFile(path, data, recordMode)
}
