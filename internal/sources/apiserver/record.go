package apiserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/google/renameio/v2"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/client/position"
	"github.com/podstream/podstream/internal/clusteruid"
	"github.com/podstream/podstream/internal/openfile"
)

// maxRecord is the largest size of a record in bytes.
const maxRecord = 4096

// record is the file of Config.ClusterFile.
type record struct {
	// path is empty if nothing is stored.
	path string
	// stored is what the file has, as last read or written; empty if it doesn't exist.
	stored types.UID
	// epoch and replaced are of the lineage of that cluster.
	epoch    uint64
	replaced []types.UID
}

// clusterDocument is the content of the file.
type clusterDocument struct {
	// UID is the cluster's. Server is the API server that showed it, and Time when: both are for operators.
	UID    types.UID `json:"uid"`
	Server string    `json:"server"`
	Time   time.Time `json:"time"`
	// Epoch and Replaced are of its lineage.
	Epoch    uint64      `json:"epoch,omitempty"`
	Replaced []types.UID `json:"replaced,omitempty"`
}

// read returns the stored UID; empty: there is none.
func (r *record) read() (types.UID, error) {
	if r.path == "" {
		return "", nil
	}
	if !r.exists() {
		return "", nil
	}
	data, err := openfile.Read(context.Background(), r.path, maxRecord)
	if err != nil {
		return "", err
	}
	var d clusterDocument
	if json.Unmarshal(data, &d) != nil || clusteruid.Check(d.UID) != nil {
		return "", fmt.Errorf("%s doesn't hold a cluster's UID", r.path)
	}
	if len(d.Replaced) > position.MaxReplaced || slices.ContainsFunc(d.Replaced, func(uid types.UID) bool { return clusteruid.Check(uid) != nil }) {
		return "", fmt.Errorf("%s doesn't hold the UIDs of the clusters before", r.path)
	}
	r.stored, r.epoch, r.replaced = d.UID, d.Epoch, d.Replaced
	return d.UID, nil
}

// exists reports whether the file exists. A symbolic link does, also if its target doesn't.
func (r *record) exists() bool {
	_, err := os.Lstat(r.path)
	return !errors.Is(err, fs.ErrNotExist)
}

// write stores the lineage, durably, unless the file has it already. A file that was removed while its own cluster answers is
// written again, so that its absence doesn't confirm a later change.
func (r *record) write(l lineage, server string) error {
	if r.path == "" || r.stored == l.cluster && r.epoch == l.epoch && slices.Equal(r.replaced, l.replaced) && r.exists() {
		return nil
	}
	data, err := json.Marshal(clusterDocument{
		UID: l.cluster, Server: server, Time: time.Now().UTC().Truncate(time.Second), Epoch: l.epoch, Replaced: l.replaced,
	})
	if err != nil {
		return err
	}
	if err := renameio.WriteFile(r.path, append(data, '\n'), 0o600); err != nil {
		return err
	}
	r.stored, r.epoch, r.replaced = l.cluster, l.epoch, l.replaced
	return nil
}

// gone reports whether an operator has removed the file since it was read or written. If its directory is gone too, that
// isn't an operator's confirmation.
func (r *record) gone() bool {
	if r.path == "" || r.stored == "" || r.exists() {
		return false
	}
	if _, err := os.Stat(filepath.Dir(r.path)); err != nil {
		return false
	}
	r.stored = ""
	return true
}

// remedy returns what confirms another UID; empty: a server that doesn't show its own.
func (r *record) remedy(uid types.UID) string {
	way := "restart podconfigd"
	if r.path != "" && r.stored != "" {
		way = "remove " + r.path
	}
	if uid == "" {
		return way
	}
	return fmt.Sprintf("%s, or set --api-cluster-uid=%s", way, uid)
}
