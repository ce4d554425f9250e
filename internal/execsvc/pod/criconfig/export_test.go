package criconfig

// Lists that the golden files show as "by default".
var (
	MaskedPaths   = maskedPaths
	ReadonlyPaths = readonlyPaths
	ThermalPaths  = thermalPaths
)

const (
	gib = int64(1) << 30
	GiB = gib
)
