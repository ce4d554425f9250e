package kmsg

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// ofKernel returns a record that the kernel writes.
func ofKernel(text string) string { return "6,423,736519313,-;" + text + "\n" }

// limited and global are summaries of Linux 6.18; kills are the lines after them.
const (
	limited     = "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/a,task_memcg=/a/b,task=python3,pid=573,uid=0"
	limitedKill = "Memory cgroup out of memory: Killed process 573 (python3) total-vm:30956kB, anon-rss:20224kB, UID:0 pgtables:100kB oom_score_adj:0"
	global      = "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0-1,3,global_oom,task_memcg=/kubepods/x,task=sh,pid=7,uid=1000"
	globalKill  = "Out of memory: Killed process 7 (sh) total-vm:30956kB, anon-rss:20224kB, UID:1000 pgtables:100kB oom_score_adj:0"
)

func TestMessage(t *testing.T) {
	for record, want := range map[string]string{
		"6,423,736519313,-;text\n":                           "text",
		"3,1,2,-,caller=T573;text\n":                         "text",
		"7,1,2,c;text\n SUBSYSTEM=acpi\n DEVICE=+acpi:PNP\n": "text",
		"0,1,2,-;a;b,c\n":                                    "a;b,c",
		"6,1,2,-;":                                           "",
	} {
		if got, kernel := message(record); got != want || !kernel {
			t.Errorf("%q: %q, of the kernel: %v", record, got, kernel)
		}
	}
	// Facilities 1 (user) to 23, and records of another form.
	for _, record := range []string{
		"8,1,2,-;text\n", "14,1,2,-;text\n", "191,1,2,-;text\n", "", ";", "text", "6;text\n", ",1,2,-;text\n", "-1,1,2,-;text\n", "+6,1,2,-;text\n", "65542,1,2,-;text\n", "6 ,1,2,-;text\n",
	} {
		if text, kernel := message(record); kernel {
			t.Errorf("%q is the kernel's: %q", record, text)
		}
	}
}

// A report is found once, whatever stands between its lines, and whatever name its victim has.
func TestScanner(t *testing.T) {
	const cut = "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null)"
	for name, c := range map[string]struct {
		lines []string
		want  []OOM
	}{
		"a limit":               {[]string{"python3 invoked oom-killer: gfp_mask=0xcc0", limited, limitedKill}, []OOM{{false, "python3", 573}}},
		"the machine":           {[]string{"sh invoked oom-killer: gfp_mask=0xcc0", "Mem-Info:", global, globalKill}, []OOM{{true, "sh", 7}}},
		"a cpuset":              {[]string{strings.Replace(global, "_NONE", "_CPUSET", 1)}, []OOM{{true, "sh", 7}}},
		"a memory policy":       {[]string{strings.Replace(global, "_NONE", "_MEMORY_POLICY", 1)}, []OOM{{true, "sh", 7}}},
		"an unknown constraint": {[]string{strings.Replace(global, "_NONE", "_OTHER", 1), globalKill}, nil},
		"two":                   {[]string{global, globalKill, limited, limitedKill}, []OOM{{true, "sh", 7}, {false, "python3", 573}}},
		// All processes of a group are killed for one report.
		"a group":                  {[]string{global, globalKill, strings.Replace(globalKill, " 7 ", " 8 ", 1)}, []OOM{{true, "sh", 7}}},
		"kills without a report":   {[]string{globalKill, limitedKill}, nil},
		"a line that is split":     {[]string{cut, "another line", ",cpuset=/,mems_allowed=0", globalKill, globalKill}, []OOM{{true, "sh", 7}}},
		"of a cgroup":              {[]string{strings.Replace(cut, "NONE", "MEMCG", 1), limitedKill}, []OOM{{false, "python3", 573}}},
		"by the allocating task":   {[]string{cut, strings.Replace(globalKill, "memory:", "memory (oom_kill_allocating_task):", 1)}, []OOM{{true, "sh", 7}}},
		"split, with an odd kill":  {[]string{cut, "Out of memory: Killed process ? (sh)"}, []OOM{{true, "", 0}}},
		"split, then another one":  {[]string{cut, limited, limitedKill}, []OOM{{false, "python3", 573}}},
		"a name like fields":       {[]string{strings.Replace(global, "=sh", "=,pid=1,uid=0,x", 1)}, []OOM{{true, ",pid=1,uid=0,x", 7}}},
		"a name like a system OOM": {[]string{strings.Replace(limited, "=python3", "=,global_oom,t", 1)}, []OOM{{false, ",global_oom,t", 573}}},
		"a cgroup like one":        {[]string{strings.Replace(limited, "/a/b", "/,global_oom,pid=1", 1)}, []OOM{{false, "python3", 573}}},
		"a name with brackets":     {[]string{cut, strings.Replace(globalKill, "(sh)", "(a) total-vm:1)", 1)}, []OOM{{true, "a) total-vm:1", 7}}},
		"a name that is too long":  {[]string{strings.Replace(global, "=sh", "="+strings.Repeat("x", 100), 1)}, []OOM{{true, strings.Repeat("x", 60), 7}}},
		"no name":                  {[]string{strings.Replace(global, "=sh", "=", 1)}, []OOM{{true, "", 7}}},
		"no process ID":            {[]string{strings.Replace(global, "=7,", "=0,", 1), globalKill}, []OOM{{true, "sh", 7}}},
		"not at the start":         {[]string{"a.out[7]: " + global, "x" + globalKill, "a" + cut, globalKill}, nil},
	} {
		var s scanner
		var got []OOM
		for _, line := range c.lines {
			if oom, ends := s.next(line); ends {
				got = append(got, oom)
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// Any record, and any records in succession, are read without a panic; a name is bounded; a record of another facility
// than the kernel's changes nothing.
func FuzzRecords(f *testing.F) {
	for _, text := range []string{limited, limitedKill, global, globalKill, "oom-kill:constraint=CONSTRAINT_NONE", "a, b;c\n d=e"} {
		f.Add(ofKernel(text), ofKernel(globalKill))
		f.Add(text, "14,1,2,-;"+text)
	}
	f.Fuzz(func(t *testing.T, first, second string) {
		var s scanner
		for _, record := range []string{first, second} {
			before := s
			text, kernel := message(record)
			if !kernel {
				if text != "" {
					t.Fatalf("%q: a text of another program: %q", record, text)
				}
				continue
			}
			oom, ends := s.next(text)
			switch {
			case len(oom.Process) > maxName || oom.PID < 0:
				t.Fatalf("%q: %+v", text, oom)
			case !ends && oom != OOM{}:
				t.Fatalf("%q: %+v before its end", text, oom)
			case ends && !before.unnamed && !strings.HasPrefix(text, summary):
				t.Fatalf("%q: %+v without a report", text, oom)
			case ends && oom.System && strings.HasPrefix(text, summary+ofCgroup+","):
				t.Fatalf("%q: the limit of a cgroup counts as a system OOM", text)
			}
		}
	})
}
