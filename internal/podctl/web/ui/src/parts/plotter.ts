// uPlot as a module of its own, which is loaded with the first chart.
export { default } from "uplot";
