package stats

import (
	"strings"
	"time"

	"github.com/podstream/podstream/internal/execsvc/serve/stats/kernel"
)

// diskSeries are the series of file systems and disks. Those of times, sectors and merged requests are only the
// machine's, with the id "/": cgroups don't count them. In contrast to cAdvisor they are in seconds.
var diskSeries = []series{
	onDisk("container_fs_usage_bytes", "Bytes used of the file system.", func(v *volume) *uint64 { return v.bytesUsed }),
	onDisk("container_fs_limit_bytes", "Bytes that the file system has.", func(v *volume) *uint64 { return known(v.bytes) }),
	onDisk("container_fs_inodes_total", "Files that the file system can have.", func(v *volume) *uint64 { return known(v.files) }),
	onDisk("container_fs_inodes_free", "Files that the file system can still have.", func(v *volume) *uint64 {
		if v.files == 0 {
			return nil
		}
		return &v.filesFree
	}),
	disk("container_fs_reads_bytes_total", "Bytes read from the disk.", func(d *kernel.Disk) uint64 { return d.ReadBytes }),
	disk("container_fs_reads_total", "Reads from the disk.", func(d *kernel.Disk) uint64 { return d.Reads }),
	disk("container_fs_writes_bytes_total", "Bytes written to the disk.", func(d *kernel.Disk) uint64 { return d.WriteBytes }),
	disk("container_fs_writes_total", "Writes to the disk.", func(d *kernel.Disk) uint64 { return d.Writes }),
	eachDisk("container_blkio_device_usage_total", "Bytes of each kind of operation on the disk.", count, operations),

	times("container_fs_sector_reads_total", "Sectors read from the disk.", count, 1, func(t *kernel.DiskTimes) uint64 { return t.ReadSectors }),
	times("container_fs_sector_writes_total", "Sectors written to the disk.", count, 1, func(t *kernel.DiskTimes) uint64 { return t.WriteSectors }),
	times("container_fs_reads_merged_total", "Reads that were joined with others.", count, 1, func(t *kernel.DiskTimes) uint64 { return t.ReadsMerged }),
	times("container_fs_writes_merged_total", "Writes that were joined with others.", count, 1, func(t *kernel.DiskTimes) uint64 { return t.WritesMerged }),
	times("container_fs_read_seconds_total", "Time of all reads, in seconds.", count, second, func(t *kernel.DiskTimes) uint64 { return t.Reading }),
	times("container_fs_write_seconds_total", "Time of all writes, in seconds.", count, second, func(t *kernel.DiskTimes) uint64 { return t.Writing }),
	times("container_fs_io_current", "Requests under way.", gauge, 1, func(t *kernel.DiskTimes) uint64 { return t.InProgress }),
	times("container_fs_io_time_seconds_total", "Time in which the disk was busy, in seconds.", count, second, func(t *kernel.DiskTimes) uint64 { return t.Busy }),
	times("container_fs_io_time_weighted_seconds_total", "Time in which the disk was busy, times the requests under way, in seconds.", count, second,
		func(t *kernel.DiskTimes) uint64 { return t.Weighted }),

	cost("container_fs_io_cost_usage_seconds_total", "Use of the disk by its cost model, in seconds.", func(c *kernel.IOCost) uint64 { return c.Usage }),
	cost("container_fs_io_cost_wait_seconds_total", "Time that requests waited by the disk's cost model, in seconds.", func(c *kernel.IOCost) uint64 { return c.Wait }),
	cost("container_fs_io_cost_indebt_seconds_total", "Time in debt by the disk's cost model, in seconds.", func(c *kernel.IOCost) uint64 { return c.Indebt }),
	cost("container_fs_io_cost_indelay_seconds_total", "Time of delays by the disk's cost model, in seconds.", func(c *kernel.IOCost) uint64 { return c.Indelay }),
}

const second = float64(time.Second)

func onDisk(name, help string, of func(*volume) *uint64) series {
	return series{name: name, help: help, kind: gauge, devices: true, values: func(x *row, add adder) {
		for _, v := range x.volumes {
			if n := of(v); n != nil {
				add(float64(*n), "device", v.device)
			}
		}
	}}
}

func disk(name, help string, of func(*kernel.Disk) uint64) series {
	return eachDisk(name, help, count, func(d *kernel.Disk, add adder) { add(float64(of(d)), "device", d.Device) })
}

func eachDisk(name, help string, k kind, values func(d *kernel.Disk, add adder)) series {
	return series{name: name, help: help, kind: k, devices: true, values: func(x *row, add adder) {
		if x.Usage == nil {
			return
		}
		for i := range x.Disks {
			values(&x.Disks[i], add)
		}
	}}
}

// times returns a series of the machine's disks.
func times(name, help string, k kind, unit float64, of func(*kernel.DiskTimes) uint64) series {
	return eachDisk(name, help, k, func(d *kernel.Disk, add adder) {
		if d.Times != nil {
			add(float64(of(d.Times))/unit, "device", d.Device)
		}
	})
}

// cost returns a series of disks with a cost model.
func cost(name, help string, of func(*kernel.IOCost) uint64) series {
	return eachDisk(name, help, count, func(d *kernel.Disk, add adder) {
		if d.Cost != nil {
			add(seconds(of(d.Cost)), "device", d.Device)
		}
	})
}

// operations adds the bytes of each kind of operation.
func operations(d *kernel.Disk, add adder) {
	all := d.Operations
	if len(all) == 0 {
		all = []kernel.Operation{{Name: "Read", Bytes: d.ReadBytes}, {Name: "Write", Bytes: d.WriteBytes}}
	}
	major, minor, _ := strings.Cut(d.Device, ":")
	for _, o := range all {
		add(float64(o.Bytes), "device", d.Device, "major", major, "minor", minor, "operation", o.Name)
	}
}
