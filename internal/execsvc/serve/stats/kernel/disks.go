package kernel

import (
	"bytes"
	"slices"
	"strings"
)

// maxDisks is the limit of disks of one cgroup: a privileged pod makes as many loop devices as it likes.
const maxDisks = 128

// parseIOStat parses lines such as 254:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=0 dios=0.
func parseIOStat(data []byte) []Disk {
	var out []Disk
	for line := range strings.Lines(string(data)) {
		words := strings.Fields(line)
		if len(words) < 2 {
			continue
		}
		if len(out) == maxDisks {
			break
		}
		d := Disk{Device: words[0]}
		for _, word := range words[1:] {
			name, value, _ := strings.Cut(word, "=")
			n, ok := digits([]byte(value))
			switch name {
			case "rbytes":
				d.ReadBytes = n
			case "wbytes":
				d.WriteBytes = n
			case "rios":
				d.Reads = n
			case "wios":
				d.Writes = n
			default:
				if of, is := strings.CutPrefix(name, "cost."); is && ok {
					d.cost(of, n*microsecond)
				}
			}
		}
		out = append(out, d)
	}
	return out
}

// cost sets a value of the I/O cost model.
func (d *Disk) cost(name string, ns uint64) {
	c := d.Cost
	if c == nil {
		c = &IOCost{}
	}
	switch name {
	case "usage":
		c.Usage = ns
	case "wait":
		c.Wait = ns
	case "indebt":
		c.Indebt = ns
	case "indelay":
		c.Indelay = ns
	default:
		// cost.vrate is the disk's, not the cgroup's.
		return
	}
	d.Cost = c
}

// parseThrottle parses lines such as 254:0 Read 4096, and calls add with each value.
func parseThrottle(data []byte, disks *[]Disk, add func(d *Disk, operation string, n uint64)) {
	for line := range strings.Lines(string(data)) {
		words := strings.Fields(line)
		if len(words) != 3 {
			continue
		}
		n, ok := digits([]byte(words[2]))
		i := slices.IndexFunc(*disks, func(d Disk) bool { return d.Device == words[0] })
		if !ok || i < 0 && len(*disks) == maxDisks {
			continue
		}
		if i < 0 {
			i = len(*disks)
			*disks = append(*disks, Disk{Device: words[0]})
		}
		add(&(*disks)[i], words[1], n)
	}
}

func addBytes(d *Disk, operation string, n uint64) {
	switch operation {
	case "Read":
		d.ReadBytes = n
	case "Write":
		d.WriteBytes = n
	}
	if len(d.Operations) < 8 {
		d.Operations = append(d.Operations, Operation{operation, n})
	}
}

func addRequests(d *Disk, operation string, n uint64) {
	switch operation {
	case "Read":
		d.Reads = n
	case "Write":
		d.Writes = n
	}
}

// parseDiskstats returns disks and partitions, except those without reads and writes.
func parseDiskstats(data []byte) []Disk {
	const (
		sector      = 512
		millisecond = 1000 * microsecond
	)
	var out []Disk
	for line := range bytes.Lines(data) {
		words := bytes.Fields(line)
		if len(words) < 14 {
			continue
		}
		n := func(i int) uint64 { n, _ := digits(words[i]); return n }
		d := Disk{
			Device: string(words[0]) + ":" + string(words[1]), Reads: n(3), ReadBytes: n(5) * sector, Writes: n(7), WriteBytes: n(9) * sector,
			Times: &DiskTimes{
				ReadsMerged: n(4), ReadSectors: n(5), Reading: n(6) * millisecond,
				WritesMerged: n(8), WriteSectors: n(9), Writing: n(10) * millisecond,
				InProgress: n(11), Busy: n(12) * millisecond, Weighted: n(13) * millisecond,
			},
		}
		if d.Reads+d.Writes > 0 {
			out = append(out, d)
		}
	}
	return out
}
