package record

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// repeating is a record with a publication whose call is being repeated.
func repeating() Volume {
	v := sample("h")
	v.Publications[0].Call = Call{Phase: Done, Pending: true, Args: "args"}
	return v
}

// TestRepeatedCall: a call that is repeated is pending after a restart. A version that doesn't repeat calls, and takes a pending call in
// phase Done for damage, reads the record as that of a published volume.
func TestRepeatedCall(t *testing.T) {
	d, v := open(t, filepath.Join(t.TempDir(), "volumes"), "a"), repeating()
	if err := d.Write(&v); err != nil {
		t.Fatal(err)
	}
	volumes, kept := load(t, d)
	if diff := cmp.Diff([]Volume{v}, volumes); diff != "" || len(kept) != 0 {
		t.Errorf("kept %v, %s", kept, diff)
	}

	data, err := Marshal(&v)
	if err != nil {
		t.Fatal(err)
	}
	// older has the fields that matter of such a version's publications.
	var older struct {
		Publications []struct {
			UID     string `json:"uid"`
			Phase   Phase  `json:"phase"`
			Pending bool   `json:"pending"`
			Args    string `json:"args"`
			Dir     string `json:"dir"`
		} `json:"publications"`
	}
	if err := json.Unmarshal(data, &older); err != nil {
		t.Fatal(err)
	}
	p, want := older.Publications[0], v.Publications[0]
	if p.Phase != Done || p.Pending || p.UID != string(want.UID) || p.Args != want.Args || p.Dir != want.Dir {
		t.Errorf("an older version reads %+v of %s", p, data)
	}
}

// TestRepeatedCallOfBefore: a record of a version that wrote a repeated call as a pending one is read.
func TestRepeatedCallOfBefore(t *testing.T) {
	v := repeating()
	data, err := Marshal(&v)
	if err != nil {
		t.Fatal(err)
	}
	before := strings.Replace(string(data), `"repeating":true`, `"pending":true`, 1)
	if before == string(data) {
		t.Fatalf("no repeated call in %s", data)
	}
	got, err := Unmarshal([]byte(before))
	if diff := cmp.Diff(v, got); diff != "" || err != nil {
		t.Errorf("%v, %s", err, diff)
	}
}

// TestRepeatingInAnotherPhase: a repeated call of a volume that isn't published, and one beside another call, are damage.
func TestRepeatingInAnotherPhase(t *testing.T) {
	v := repeating()
	data, err := Marshal(&v)
	if err != nil {
		t.Fatal(err)
	}
	for _, replace := range [][2]string{
		{`"stage":{"phase":"done"`, `"stage":{"phase":"unsure","pending":true`},
		{`"uid":"u1","plugin":"kubernetes.io/csi","name":"pv","phase":"done"`, `"uid":"u1","plugin":"kubernetes.io/csi","name":"pv"`},
	} {
		bad := strings.Replace(string(data), replace[0], replace[1], 1)
		if bad == string(data) {
			t.Fatalf("%s isn't in %s", replace[0], data)
		}
		if got, err := Unmarshal([]byte(bad)); err == nil {
			t.Errorf("%s is read as %+v", bad, got)
		}
	}
}
