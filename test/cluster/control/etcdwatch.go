package control

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// Change is one change of a key of the store.
type Change struct {
	// Value is the value that was put, or, if Deleted is set, the one before.
	Value   []byte
	Deleted bool
	// Revision is that of the store: in Kubernetes, the resource version.
	Revision int64
}

// Watch calls each for all changes after a revision of the keys that begin with prefix, until the context ends. It needs no API
// server, and misses nothing.
func (e *Etcd) Watch(ctx context.Context, prefix string, after int64, each func(Change) error) error {
	end := []byte(prefix)
	end[len(end)-1]++
	body, err := json.Marshal(map[string]any{"create_request": map[string]any{
		"key": []byte(prefix), "range_end": end, "start_revision": after + 1, "prev_kv": true,
	}})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url+"/v3/watch", bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := e.http.Do(req)
	if err != nil {
		return fmt.Errorf("etcd's watch: %w", err)
	}
	defer resp.Body.Close()
	type pair struct {
		Value    []byte `json:"value"`
		Revision int64  `json:"mod_revision,string"`
	}
	for answers := json.NewDecoder(resp.Body); ; {
		var answer struct {
			Error  json.RawMessage
			Result struct {
				Canceled bool
				Events   []struct {
					Type   string
					KV     pair `json:"kv"`
					Before pair `json:"prev_kv"`
				}
			}
		}
		if err := answers.Decode(&answer); err != nil {
			if ctx.Err() != nil {
				return nil //nolint:nilerr // That is how it ends.
			}
			return fmt.Errorf("etcd's watch: %w", err)
		}
		if answer.Error != nil || answer.Result.Canceled {
			return fmt.Errorf("etcd's watch ended at %v: %s", time.Now(), answer.Error)
		}
		for _, event := range answer.Result.Events {
			c := Change{Value: event.KV.Value, Revision: event.KV.Revision}
			if event.Type == "DELETE" {
				c.Value, c.Deleted = event.Before.Value, true
			}
			if err := each(c); err != nil {
				return err
			}
		}
	}
}
