package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
)

// The bounds of a record. A volume's arguments come from the API server, and one volume can be published for each pod
// of the node.
const (
	maxSize         = 16 << 20
	maxPublications = 4096
	// maxGrown bounds a record to which a publication is added. The rest is for the calls that end publications: each one makes the
	// record a little larger first, and pods couldn't end otherwise.
	maxGrown = maxSize - 4<<20
)

// Marshal returns the file's content. It fails for a record that couldn't be read back as it is, such as one with a
// string that isn't UTF-8.
func Marshal(v *Volume) ([]byte, error) {
	stored := v.Clone()
	stored.normalize()
	data, err := json.Marshal(&stored)
	if err != nil {
		return nil, err
	}
	back, err := Unmarshal(data)
	if err != nil {
		return nil, err
	}
	if !reflect.DeepEqual(back, stored) {
		return nil, errors.New("the record can't be read back as it is: one of its strings isn't UTF-8")
	}
	return data, nil
}

// Unmarshal returns the record in a file's content.
func Unmarshal(data []byte) (Volume, error) {
	if len(data) > maxSize {
		return Volume{}, fmt.Errorf("it has %d bytes, more than %d", len(data), maxSize)
	}
	var v Volume
	if err := json.Unmarshal(data, &v); err != nil {
		return Volume{}, fmt.Errorf("read as JSON: %w", err)
	}
	err := check(&v)
	return v, err
}

// check returns an error for a record that package storage doesn't write.
func check(v *Volume) error {
	switch {
	case v.Version != Version:
		return fmt.Errorf("its version is %d, not %d", v.Version, Version)
	case v.Agent == "" || v.Boot == "" || v.Driver == "" || v.Handle == "" || v.Backend == "":
		return errors.New("agent, boot, driver, handle or backend is missing")
	case len(v.Publications) > maxPublications:
		return fmt.Errorf("it has %d publications, more than %d", len(v.Publications), maxPublications)
	}
	switch v.Use {
	case NotInUse, AddingUse, InUse, DroppingUse:
	default:
		return fmt.Errorf("use %q is unknown", v.Use)
	}
	pending := 0
	for name, c := range map[string]Call{"stage": v.Stage, "expand": v.Expand} {
		if err := checkCall(c, false); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		pending += count(c.Pending)
	}
	seen := map[Target]bool{}
	for i := range v.Publications {
		p := &v.Publications[i]
		pending += count(p.Pending)
		switch err := checkCall(p.Call, true); {
		case err != nil:
			return fmt.Errorf("publication %d: %w", i, err)
		case p.Phase == None || p.UID == "" || p.Plugin == "" || p.Name == "" || p.Dir == "":
			return fmt.Errorf("publication %d: phase, uid, plugin, name or dir is missing", i)
		case seen[p.Target]:
			return fmt.Errorf("publication %d is there twice", i)
		}
		seen[p.Target] = true
	}
	if v.Expand.Phase != None && !seen[v.ExpandTarget] {
		return errors.New("it is expanded for a publication that it doesn't have")
	}
	if pending > 1 {
		return fmt.Errorf("%d calls are pending; at most one is made at a time", pending)
	}
	return nil
}

// checkCall returns an error for a call that package storage doesn't write. Only a publication is made again when it is
// done: republish.
func checkCall(c Call, publication bool) error {
	switch c.Phase {
	case None, Unsure, Done, Undoing:
	default:
		return fmt.Errorf("phase %q is unknown", c.Phase)
	}
	if c.Reusable && c.Phase != Undoing {
		return fmt.Errorf("it is reusable in phase %q", c.Phase)
	}
	if c.Pending && (c.Phase == None || c.Phase == Done && !publication) {
		return fmt.Errorf("it is pending in phase %q", c.Phase)
	}
	return nil
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}
