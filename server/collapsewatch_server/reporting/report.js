(() => {
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const config = { responsive: true, displaylogo: false, modeBarButtons: [["toImage", "zoom2d", "pan2d", "resetScale2d"]] };
  document.querySelectorAll("[data-chart] .plot").forEach((plot, i) => {
    Plotly.newPlot(plot, figures[i].data, figures[i].layout, config);
  });
})();
