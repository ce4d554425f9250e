package record

import "encoding/json"

// stored is a Publication as JSON. A version of podexecd that doesn't repeat calls takes a pending call in phase Done for damage. So the
// call is stored in a field that such a version ignores: for it the volume is published, which it is, whatever the call does.
type stored struct {
	plain
	// Repeating is set instead of Pending in phase Done.
	Repeating bool `json:"repeating,omitempty"`
}

// plain has the fields of a Publication, and not its methods.
type plain Publication

// MarshalJSON is part of json.Marshaler.
func (p Publication) MarshalJSON() ([]byte, error) {
	s := stored{plain: plain(p)}
	if s.Phase == Done && s.Pending {
		s.Pending, s.Repeating = false, true
	}
	return json.Marshal(s)
}

// UnmarshalJSON is part of json.Unmarshaler. The field Pending in phase Done, which some versions have written, counts too.
func (p *Publication) UnmarshalJSON(data []byte) error {
	var s stored
	if err := json.Unmarshal(data, &s); err != nil {
		return err
	}
	*p = Publication(s.plain)
	p.Pending = p.Pending || s.Repeating
	return nil
}
