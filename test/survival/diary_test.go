package survival

import (
	"slices"
	"testing"
	"time"
)

func TestParseDiary(t *testing.T) {
	text := "1000000001 aa start\n1000000002 aa term\n1000000003 aa term\n1000000004 bb start\n1000000005 aa end 3\n1000000006 bb e"
	runs, err := ParseDiary("u", "c", text)
	want := []Run{
		{UID: "u", Container: "c", ID: "aa", Start: time.Unix(1, 1), Term: time.Unix(1, 2), End: time.Unix(1, 5), Code: 3},
		{UID: "u", Container: "c", ID: "bb", Start: time.Unix(1, 4)},
	}
	if err != nil || !slices.Equal(runs, want) {
		t.Errorf("%+v, %v; want %+v", runs, err, want)
	}
	for _, bad := range []string{"1\n", "x aa start\n", "1 aa end 0\n", "1 aa start\n2 aa end x\n", "1 aa start\n1 aa start\n", "1 aa dance\n"} {
		if runs, err := ParseDiary("u", "c", bad); err == nil {
			t.Errorf("%q is parsed as %+v; want an error", bad, runs)
		}
	}
}
